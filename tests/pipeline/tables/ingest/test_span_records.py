"""Records of mapped spans: what is killed maps no span twice, what is damaged is mapped again."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest import mapping
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.span_map import SpanMap
from fewpass.pipeline.tables.ingest.writing import GroupWriter
from fewpass.pipeline.tables.readers import lines
from fewpass.storage.part_files import DamagedPart

SPANS = 3 * 4
#: A client of one thread that is killed once it has mapped some spans.
CLIENT = """
import os, signal, sys
from tests.pipeline.tables.ingest.test_span_records import noted, plan_of
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.tables.ingest.phases import ingest

place, most = sys.argv[1], int(sys.argv[2])
with noted(place, most), open_executor(Execution(threads=1)) as executor:
    print(ingest(plan_of(place, "set"), executor=executor).fingerprint)
"""


def noted(place, most=0):
    """Pieces of 2 kB in spans of four; spans that are mapped are noted, and one ends the process."""
    map_span = SpanMap.map

    def mapped(self, number, span):
        made = map_span(self, number, span)
        with (Path(place) / "mapped").open("a+") as file:
            file.write(f"{number}\n")
            file.seek(0)
            if most and len(file.readlines()) % most == 0:
                file.close()
                os.kill(os.getpid(), signal.SIGKILL)
        return made

    patch = pytest.MonkeyPatch()
    patch.setattr(mapping, "PIECE_BYTES", 2_000)
    patch.setattr(lines, "SPAN_BYTES", 8_000)
    patch.setattr(SpanMap, "map", mapped)
    undone = ExitStack()
    undone.callback(patch.undo)
    return undone


def plan_of(place, name):
    files = tuple(f"{place}/{k}.svm" for k in range(3))
    return IngestPlan(
        sources=files, dataset=f"{place}/{name}", chunk_bytes="4kB", test_fraction=0.2,
    )  # fmt: skip


def spans_mapped(place):
    path = place / "mapped"
    numbers = [int(line) for line in path.read_text().split()] if path.exists() else []
    path.unlink(missing_ok=True)
    return sorted(numbers)


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(1)
    for k in range(3):
        X = rng.standard_normal((700, 4)).round(3)
        rows = (" ".join(f"{j + 1}:{v}" for j, v in enumerate(x)) for x in X)
        text = "".join(f"{int(x[0] > 0)} {row}\n" for x, row in zip(X, rows, strict=True))
        (tmp_path / f"{k}.svm").write_text(text)
    return tmp_path


@pytest.fixture
def alone(place):
    """The fingerprint of the set that threads make."""
    with noted(place):
        return ingest(plan_of(place, "threads")).fingerprint


@pytest.fixture
def executor():
    with open_executor(Execution(threads=2)) as made:
        yield made


def test_a_client_that_is_killed_again_and_again_has_each_span_mapped_once(place, alone):
    for _ in range(SPANS // 4):
        client = [sys.executable, "-c", CLIENT, str(place), "4"]
        assert subprocess.run(client, check=False).returncode == -signal.SIGKILL
    client[-1] = "0"
    last = subprocess.run(client, check=True, stdout=subprocess.PIPE, text=True)
    assert last.stdout.split() == [alone]
    assert spans_mapped(place) == [*range(SPANS)]
    assert not (place / "set/.ingest").exists()


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-1])


def changed(path):
    raw = bytearray(path.read_bytes())
    raw[-20] ^= 1
    path.write_bytes(raw)


def of_other_rows(path):
    other = path.with_name(path.name.replace("000002", "000003"))
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("what", [".json", "-0000"])
@pytest.mark.parametrize("done", [cut_short, changed, os.remove, of_other_rows])
def test_a_span_that_is_not_as_it_was_written_is_mapped_again_alone(
    what, done, place, alone, executor, monkeypatch
):
    with noted(place):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(mapping.RowMapper, "_all_of", interrupted)
            ingest(plan_of(place, "set"), executor=executor)
        assert spans_mapped(place) == [*range(SPANS)]
        done(place / f"set/.ingest/spans/000002{what}")
        made = ingest(plan_of(place, "set"), executor=executor)
    assert (made.fingerprint, made.partitioned_again) == (alone, None)
    assert spans_mapped(place) == [2]


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("done", [changed, os.remove])
def test_a_part_that_is_damaged_while_chunks_are_written_has_its_span_mapped_again(
    done, place, alone, executor, monkeypatch
):
    write_on = GroupWriter.write_on

    def damaged_first(self, *given):
        if self.group:
            for number in (2, 9):
                done(place / f"set/.ingest/spans/{number:06d}-0000")
        return write_on(self, *given)

    monkeypatch.setattr(GroupWriter, "write_on", damaged_first)
    with noted(place):
        made = ingest(plan_of(place, "set"), executor=executor)
    assert made.fingerprint == alone
    assert spans_mapped(place) == sorted([*range(SPANS), 2, 9])


def test_a_part_that_cannot_be_mended_is_an_error(place, executor, monkeypatch):
    write_on = GroupWriter.write_on
    monkeypatch.setattr(mapping.RowMapper, "mend", lambda *_: True)

    def damaged_first(self, *given):
        (place / "set/.ingest/spans/000002-0000").unlink()
        return write_on(self, *given)

    monkeypatch.setattr(GroupWriter, "write_on", damaged_first)
    with noted(place), pytest.raises(DamagedPart, match="000002-0000 is not as it was written"):
        ingest(plan_of(place, "set"), executor=executor)
