"""Data sets of a few hundred rows have several chunks here, as changes look at each."""

import pytest

from fewpass.pipeline.settings import ingest_plan


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of 16 KiB unless a test says otherwise."""
    monkeypatch.setattr(ingest_plan, "CHUNK_BYTES", 16 << 10)
