"""docs/format.md names every member, attribute and event that is stored."""

import re
from dataclasses import fields

from fewpass.pipeline.runs.events import KINDS
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.saved import Attributes, Cursor
from fewpass.storage.chunk_table import ChunkTable
from fewpass.storage.column_schema import Schema
from fewpass.storage.manifest import Manifest, PartRecord
from tests.conftest import PROJECT

MODELS = (Manifest, ChunkTable, PartRecord, Schema, RunRecord)


def test_all_that_is_stored_is_on_the_page():
    named = set(re.findall(r"`(\w+)`", (PROJECT / "docs/format.md").read_text(encoding="utf-8")))
    members = {name for model in MODELS for name in model.model_fields}
    members |= {field.name for field in fields(Attributes)}
    assert {*members, *Cursor._fields} - named == set()


def test_all_events_are_on_the_page():
    page = (PROJECT / "docs/format.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+) \|(.+)$", page, re.MULTILINE)
    described = "\n".join(text for kinds, text in rows)
    assert (
        set(KINDS) - {kind for kinds, _ in rows for kind in re.findall(r"`(\w+)`", kinds)} == set()
    )
    logged = {field.name for facts in KINDS.values() for field in fields(facts)}
    assert logged - set(re.findall(r"`(\w+)`", described)) == set()
