"""What a target holds, of this checkout and of an earlier one, in turns.

    python -m benchmarks.suite.both_commits CHECKOUT [--only PART|CONTEST ...]

CHECKOUT is a work tree of an earlier commit (`git worktree add --detach DIR COMMIT`).  Of every
contest those take part that a target names as ours, each in a process of its own of either
checkout, on the same rows; turns go round, there and back.  Contests by whole courses (`accuracy`)
are left out.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.suite.contest import ROOT, Contest, Contestant, Running, row_of, running
from benchmarks.suite.programme import Programme
from testing.results import EVIDENCE, Row, commit, conclude, recorded, table

PART = "both-commits"
HEAD = ("contest", "contestant", "wall ms: before", "now", "CPU ms: before", "now", "now / before")


def main() -> None:
    """Hold the contests that were asked for between two commits."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("checkout", type=Path, help="a work tree of an earlier commit")
    options.add_argument("--only", nargs="+", default=[], help="parts, or contests by their name")
    options.add_argument("--results", type=Path, default=EVIDENCE, help="file of JSON lines")
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass")
    asked = options.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    contests = (c for c in chosen(asked.folder, set(asked.only)) if ours(c))
    rows = recorded(asked.results, PART, measured(contests, asked.checkout), in_short)
    part = " ".join([PART, *asked.only])  # so that the page names every command
    conclude(asked.results, part, findings(rows), ("numpy", "numba"))


def chosen(folder: Path, only: set[str]) -> Iterator[Contest]:
    """Yield the contests of work done in turns that are asked for."""
    for part, contests in Programme(folder, quick=False).contests().items():
        if only and not any(name.split()[0] == part for name in only):
            continue
        for contest in contests():
            if isinstance(contest, Contest) and (not only or only & {part, contest.name}):
                yield contest


def ours(contest: Contest) -> list[Contestant]:
    """Return whom its targets hold."""
    held = {target.ours for target in contest.targets}
    return [one for one in contest.contestants if one.name in held]


def measured(contests: Iterator[Contest], before: Path) -> Iterator[Row]:
    """Yield a row per contestant: what it took in either checkout."""
    named = commit(before)
    for contest in contests:
        with ExitStack() as stack:
            pairs = [
                tuple(stack.enter_context(running(one, True, at)) for at in (before, ROOT))
                for one in ours(contest)
            ]
            everyone = [process for pair in pairs for process in pair]
            for process in everyone:
                process.ready = process.answer()
            for _ in range(contest.turns):
                for process in everyone:
                    process.take_turn()
                everyone.reverse()  # who reads a file after another one finds it nearer
        yield from ({"before": named} | row(contest, *pair) for pair in pairs)


def row(contest: Contest, before: Running, now: Running) -> Row:
    """Return the medians of a contestant in both checkouts."""
    then, today = row_of(before), row_of(now)
    medians = {
        measure: [then[measure]["median"], today[measure]["median"]]
        for measure in ("wall_s", "cpu_s")
    }
    return {"contest": contest.name, "contestant": now.contestant.name} | medians


def change(row: Row) -> float:
    """Return the processor's seconds now over those before."""
    before, now = row["cpu_s"]
    return now / before


def in_short(row: Row) -> str:
    """Say what came out."""
    return f"{row['contest']}, {row['contestant']}: {change(row):.2f} of the CPU seconds before"


def findings(rows: list[Row]) -> list[str]:
    """Say how many take longer now."""
    changes = [change(row) for row in rows]
    more, less = (sum(one > 1.1 for one in changes), sum(one < 1 / 1.1 for one in changes))
    commits = ", ".join(dict.fromkeys(row["before"] for row in rows))
    told = (
        f"Before is commit {commits}. Of {len(rows)}, {more} take over a tenth more of the"
        f" processor now, {less} less; the middle one takes {median(changes):.2f} of before."
    )
    return [told]


def tables(rows: list[Row]) -> str:
    """Return a table of all."""
    told = [
        [one["contest"], one["contestant"],
         *(milliseconds(seconds) for measure in ("wall_s", "cpu_s") for seconds in one[measure]),
         f"{change(one):.2f}"]
        for one in rows
    ]  # fmt: skip
    return table(HEAD, told, HEAD[:2])


def milliseconds(seconds: float) -> str:
    """Write a time in milliseconds, of three digits at least."""
    return f"{1e3 * seconds:.3g}" if seconds < 1.0 else f"{1e3 * seconds:,.0f}"


if __name__ == "__main__":
    main()
