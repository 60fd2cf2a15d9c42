"""docs/format.md names every member, attribute and event that is stored."""

import re
from dataclasses import fields

from fewpass.pipeline.runs.run_folder import RunRecord
from fewpass.pipeline.runs.saved import Attributes, Cursor
from fewpass.pipeline.training.walk import SpanReport
from fewpass.storage.column_schema import Schema
from fewpass.storage.manifest import ChunkTable, Manifest
from tests.conftest import PROJECT

MODELS = (Manifest, ChunkTable, Schema, RunRecord)
NOT_LOGGED = {"row_state"}


def test_all_that_is_stored_is_on_the_page():
    named = set(re.findall(r"`(\w+)`", (PROJECT / "docs/format.md").read_text(encoding="utf-8")))
    members = {name for model in MODELS for name in model.model_fields}
    members |= {field.name for field in fields(Attributes)}
    assert {*members, *Cursor._fields, *SpanReport._fields} - NOT_LOGGED - named == set()


def test_all_events_are_on_the_page():
    page = (PROJECT / "docs/format.md").read_text(encoding="utf-8")
    rows = "\n".join(re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE))
    code = [path.read_text() for path in (PROJECT / "pipeline").rglob("*.py")]
    events = {kind for text in code for kind in re.findall(r'\.event\(\s*"(\w+)"', text)}
    assert len(events) > 10
    assert events - set(re.findall(r"`(\w+)`", rows)) == set()
