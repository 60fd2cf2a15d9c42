"""Small files of every format, changed at random: they are read, or refused by name.

No crash, no hang, no error but a sentence with the file's name, no memory beyond what a few rows
need; and of text by lines every row is there, or counted as refused.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.families import Case
from tests.faults.mutations import CHANGES, changed
from tests.faults.sandbox import Sandbox
from tests.faults.small_files import BY_LINES, FILES
from tests.faults.starter import Ended
from tests.faults.verdict import Verdict, broken, fault_of

NUMBERS = 220  # changes of every kind
WAYS = ("skip", "refuse", "as before", "encoded")
HERE = "tests.faults.fuzzing:read"
#: Every so manieth change is read by a command.
BY_COMMAND = 20
MOST_MEMORY, MEMORY = 100 << 20, 128_000_000


def fuzzed_files(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """Every kind of change to a file, drawn by numbers."""
    for number in range(NUMBERS):
        for what in (*CHANGES, "knowing"):
            yield Case(
                "P12", name, what, what,
                lambda what=what, number=number: _read(sandbox, name, what, number),
            )  # fmt: skip


def _read(sandbox: Sandbox, name: str, what: str, number: int) -> Verdict:
    """Write a changed file, and have a child read it."""
    _prepare(sandbox, name)
    raw = changed(name, FILES[name](), what, number)
    path = sandbox.root / "fuzzed" / name
    path.write_bytes(raw)
    way = WAYS[number % len(WAYS)]
    command = [HERE, str(path), way]
    if number % BY_COMMAND == 0:
        command = ["ingest", str(path), f"{path}.set", "--overwrite", "--on-bad-row", "skip", "-q"]
    ended = sandbox.starter.run([command], watched=path.parent)
    found = _evaluated(ended, name, raw, way)
    if found.how == "broken":
        return found._replace(why=f"change {number}, {way}: {found.why}")
    return found


def _prepare(sandbox: Sandbox, name: str) -> None:
    """Read the whole file first: that compiles what is compiled, and tells its columns."""
    if f"fuzzed {name}" in sandbox.memory:
        return
    path = sandbox.root / "fuzzed" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(FILES[name]())
    commands = [[HERE, str(path), way] for way in WAYS]
    commands.append(["ingest", str(path), f"{path}.set", "--overwrite", "-q"])
    ended = sandbox.starter.run(commands, watched=path.parent, here=True, timeout_s=300.0)
    wrong = [said.err for said in ended.commands if said.status]
    assert not wrong, wrong
    sandbox.memory[f"fuzzed {name}"] = True


def _evaluated(ended: Ended, name: str, raw: bytes, way: str) -> Verdict:
    if wrong := fault_of(ended):
        return broken(wrong)
    if ended.memory > MOST_MEMORY:
        return broken(f"took {ended.memory >> 20} MB")
    said = ended.commands[-1]
    if said.status:
        text = " ".join(said.err.split())
        is_named = name in text or "training rows" in text  # too few are no fault of a file's
        is_sentence = text.endswith((".", ")")) and is_named and len(text.split()) > 5
        if said.status == 2 and is_sentence:
            return Verdict("refused")
        return broken(f"exit {said.status}, without a sentence that names the file: {text[-400:]}")
    if not said.out.startswith("{"):  # of a command
        return Verdict("harmless")
    told = json.loads(said.out)
    wanted = _rows_in(raw)
    is_counted = name in BY_LINES and way == "skip" and bool(wanted)
    if is_counted and told["kept"] + told["refused"] not in wanted:
        return broken(f"{told} of {wanted} lines")
    return Verdict("harmless")


def _rows_in(raw: bytes) -> tuple[int, ...]:
    """Return the lines that say something, with and without those of zero bytes alone.

    None where it is not plain what ends them.
    """
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\r" in raw:
        return ()
    lines = [line.split(b"#")[0] for line in raw.split(b"\n")]
    return tuple(sum(bool(line.strip(blank)) for line in lines) for blank in (b" \t", b" \t\0"))


def read(path: str, way: str) -> None:
    """Read a file as ingest, predict and evaluate do; print how many rows were kept and refused."""
    from fewpass.pipeline.budget import Budget
    from fewpass.pipeline.settings.source_options import SourceOptions
    from fewpass.pipeline.tables.readers import Expected, open_source

    given: dict[str, Any] = {"on_bad_row": "refuse" if way == "refuse" else "skip"}
    if way == "encoded" and Path(path).name.split(".")[1] in _TABLES:
        given["encode"] = "always"
    expected = Expected(budget=Budget(MEMORY, MEMORY // 2))
    if way == "as before":
        expected = expected._replace(schema=_before(path, SourceOptions(**given), expected))
    source = open_source([path], SourceOptions(**given), None, expected)
    source.estimated_bytes()
    kept = refused = 0
    for piece in source.pieces(2000):
        parsed = source.parse(piece)
        kept, refused = kept + parsed.table.n_rows, refused + parsed.n_skipped
    json.dump({"kept": kept, "refused": refused}, sys.stdout)


_TABLES = ("csv", "tsv", "jsonl", "parquet", "arrow", "arrows", "feather")


def _before(path: str, options: Any, expected: Any) -> Any:
    """Return the columns of the whole file."""
    from fewpass.pipeline.tables.readers import open_source

    whole = Path(path).with_name(f"whole-{Path(path).name}")
    if not whole.exists():
        whole.write_bytes(FILES[Path(path).name]())
    return open_source([str(whole)], options, None, expected).schema
