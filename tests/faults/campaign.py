"""Many cases, counted: what `make faults` runs.

    python -m tests.faults.campaign [--size 1.0] [--processes 2] [--seed 17] [--results FILE]
                                    [--only KIND ...] [--subjects NAME ...]

Size 1 takes an hour and a half on two cores; a smaller one tries that share of it.  With --only or
--subjects, what the results say of other kinds and subjects stays.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.faults.catalogue import CATALOGUE, SEED, sample
from tests.faults.families import Case
from tests.faults.sandbox import Sandbox
from tests.faults.verdict import Verdict, broken

RESULTS = Path(__file__).parents[2] / "docs" / "trust.jsonl"
MOST_TOLD = 5  # broken cases per row

Row = dict[str, Any]
Unit = tuple[str, str]


def main() -> None:
    """Try everything, and write down what came of it."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--size", type=float, default=1.0)
    options.add_argument("--processes", type=int, default=os.cpu_count())
    options.add_argument("--seed", type=int, default=SEED)
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--only", nargs="*", choices=CATALOGUE, default=list(CATALOGUE))
    options.add_argument("--subjects", nargs="*", help="[default: all of each kind]")
    chosen = options.parse_args()
    began = time.perf_counter()
    units = [
        (kind, name)
        for kind in chosen.only for name in CATALOGUE[kind].subjects
        if not chosen.subjects or name in chosen.subjects
    ]  # fmt: skip
    about_others, kept = _others(chosen.results, units)
    before = about_others.get("minutes", 0.0)
    rows: list[Row] = []
    for row in _every(units, chosen.size, chosen.seed, chosen.processes):
        rows.append(row)
        about = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "size": min(chosen.size, about_others.get("size", chosen.size)),
            "seed": chosen.seed,
            "minutes": round(before + (time.perf_counter() - began) / 60, 1),
            "python": platform.python_version(),
            "versions": {name: version(name) for name in ("fewpass", "numpy", "numba")},
        }
        every = sorted([*kept, *rows], key=_place)
        _write(chosen.results, [{"about": about}, *every])
    count = sum(sum(row["how"].values()) for row in rows)
    failures = sum(row["how"].get("broken", 0) for row in rows)
    print(f"{count} cases, {failures} broken, {about['minutes']} minutes", flush=True)
    sys.exit(failures > 0)


def _others(results: Path, units: list[Unit]) -> tuple[Row, list[Row]]:
    """Return how other kinds and subjects were tried, and what is known of them."""
    everything = [(kind, name) for kind in CATALOGUE for name in CATALOGUE[kind].subjects]
    if set(units) == set(everything) or not results.exists():
        return {}, []
    about, *rows = [json.loads(line) for line in results.read_text().splitlines()]
    kept = [row for row in rows if (row["kind"], row["subject"]) not in units]
    return about["about"], kept


def _place(row: Row) -> tuple[int, int]:
    """Where a row stands: kinds and subjects in the order of the catalogue."""
    subjects = CATALOGUE[row["kind"]].subjects
    at = subjects.index(row["subject"]) if row["subject"] in subjects else len(subjects)
    return list(CATALOGUE).index(row["kind"]), at


def _write(results: Path, lines: list[Row]) -> None:
    """Write what there is so far: an interrupted campaign is a shorter one."""
    beside = results.with_name(f".{results.name}.partial")
    beside.write_text("".join(json.dumps(line) + "\n" for line in lines))
    beside.replace(results)


def _every(units: list[Unit], size: float, seed: int, processes: int) -> Iterator[Row]:
    """Try all units, spread over processes; rows in the order of the units."""
    with multiprocessing.get_context("spawn").Pool(processes, _begin) as pool:
        found = [pool.apply_async(_unit, (*unit, size, seed)) for unit in units]
        for unit, waiting in zip(units, found, strict=True):
            row = waiting.get()
            yield row
            how = ", ".join(f"{n} {name}" for name, n in row["how"].items())
            print(f"{unit[0]}, {unit[1]}: {row['there']} cases, {how}", flush=True)
            for one in row["broken"]:
                print(f"    {one['fault']}, {one['target']}: {one['why']}", flush=True)
        pool.close()
        pool.join()


_sandbox: Sandbox


def _begin() -> None:
    global _sandbox
    _sandbox = Sandbox(Path(tempfile.mkdtemp(prefix="fewpass-faults-")))
    multiprocessing.util.Finalize(_sandbox, _sandbox.close, exitpriority=10)


def _unit(kind: str, subject: str, size: float, seed: int) -> Row:
    """Try one subject's cases of one kind."""
    there = len(list(CATALOGUE[kind].cases(_sandbox, subject)))
    most = CATALOGUE[kind].most(subject, there, size)
    every, cases = sample(_sandbox, kind, subject, most, seed)
    found = [(case, _tried(case)) for case in cases]
    return _counted(kind, subject, every, found)


def _tried(case: Case) -> Verdict:
    try:
        return case.run()
    except (OSError, ValueError, LookupError, TypeError) as error:
        return broken(f"what is left cannot be read: {error!r}")


def _counted(kind: str, subject: str, every: list[Case], found: list[tuple[Case, Verdict]]) -> Row:
    promise = every[0].promise if every else ""
    return {
        "kind": kind,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "promise": promise,
        "subject": subject,
        "there": len(every),
        "targets": len({case.target for case in every}),
        "targets_tried": len({case.target for case, _ in found}),
        "struck": sum(verdict.struck for _, verdict in found),
        "faults": dict(Counter(case.fault for case, _ in found)),
        "how": dict(Counter(verdict.how for _, verdict in found)),
        "certificates": sum(verdict.certificates for _, verdict in found),
        **_figures(found),
        "broken": [
            {"fault": case.fault, "target": case.target, "why": verdict.why[:300]}
            for case, verdict in found
            if verdict.how == "broken"
        ][:MOST_TOLD],
    }


def _figures(found: list[tuple[Case, Verdict]]) -> Row:
    """Return what was measured, by target; nothing where nothing is."""
    told = {case.target: v.figure for case, v in found if v.figure is not None}
    return {"figures": told} if told else {}


if __name__ == "__main__":
    main()
