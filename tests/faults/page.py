"""The page of trust, made of the results alone.

python -m tests.faults.page    # prints it; the documentation's site has it
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from testing.results import table
from tests.faults.campaign import RESULTS, Row
from tests.faults.catalogue import CATALOGUE
from tests.faults.promises import NOT_PROMISED, PROMISES, SHORT

HEAD = """\
# Trust

What fewpass promises about faults, how each promise was tested, how often, and what failed.
`make faults` runs all cases and writes their results (`docs/trust.jsonl`), of which this page is made;
`make test` runs a small, fixed sample.

Every case runs real commands on a few hundred rows in a separate process, so that crashes, hangs
and excessive memory are detected. The results are compared bit by bit with those of an undisturbed
run: the weights, the objective and the certificate of a model, every byte of a data set."""

ENDS = """\
A case ends in one of these ways:

- **healed**: the same bits at the end.
- **named**: the damaged object is reported by name, and not used.
- **refused**: a document is refused with a message.
- **harmless**: the changed document is valid, too, or the fault has no effect.
- **broken**: a promise was not kept. Each one is listed below."""

WORDS = {"equal": "healed"}
ENDINGS = ("equal", "named", "refused", "harmless", "broken")


def page(results: Path = RESULTS) -> str:
    """Return the page."""
    about, rows = read(results)
    parts = [HEAD, _when(about, rows), ENDS, "## All promises", _overview(rows)]
    for promise, sentence in PROMISES.items():
        parts += [f"## {promise}", sentence, *_section(promise, rows)]
    parts += ["## Not promised", "\n".join(f"- {text}" for text in NOT_PROMISED)]
    return "\n\n".join(parts) + "\n"


def _when(about: dict[str, Any], rows: list[Row]) -> str:
    dates = sorted({row["at"][:10] for row in rows})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    named = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    share = "" if about["size"] == 1.0 else f" (size {about['size']:g} of 1)"
    return (
        f"These results are of {when}, {about['minutes']} minutes{share}, "
        f"seed {about['seed']}, Python {about['python']}, {named}."
    )


def _overview(rows: list[Row]) -> str:
    head = ("promise", "about", "cases tried", "possible", "certificates compared", "broken")
    lines = []
    for promise in PROMISES:
        mine = [row for row in rows if row["promise"] == promise]
        name = [f"[{promise}](#{promise.lower()})", SHORT[promise]]
        if promise == "P6":
            checked = sum(row["certificates"] for row in rows)
            false = sum("false certificate" in b["why"] for row in rows for b in row["broken"])
            lines.append([*name, f"{checked:,}", "-", f"{checked:,}", f"{false}"])
            continue
        lines.append([
            *name, f"{_tried(mine):,}", f"{sum(row['there'] for row in mine):,}",
            f"{sum(row['certificates'] for row in mine):,}", f"{_broken(mine)}",
        ])  # fmt: skip
    return table(head, lines, ("promise", "about"))


def _section(promise: str, rows: list[Row]) -> list[str]:
    if promise == "P6":
        return [
            (
                "After every healed training, its objective is recomputed from its weights, and the "
                "optimum is computed by SciPy on rows that were never stored: by L-BFGS for smooth "
                "losses, and for the hinge from its dual, which bounds it from both sides. The "
                "certificates compared are counted above."
            )
        ]
    mine = [row for row in rows if row["promise"] == promise]
    parts = []
    for kind in CATALOGUE:
        if found := [row for row in mine if row["kind"] == kind]:
            parts += [f"### {CATALOGUE[kind].title}", _of_kind(kind, found), *_figures(found)]
    return [*parts, *_breaks(mine)]


def _of_kind(kind: str, rows: list[Row]) -> str:
    faults = list(dict.fromkeys(fault for row in rows for fault in row["faults"]))
    telling = any(len(row["faults"]) > 1 for row in rows)
    few = faults if telling and len(faults) <= 8 else []
    endings = [e for e in ENDINGS if any(row["how"].get(e) for row in rows)]
    targets = CATALOGUE[kind].targets
    head = ("of", f"{targets} tried", "possible", *few, *(WORDS.get(e, e) for e in endings))
    lines = [
        [
            row["subject"], f"{row['targets_tried']:,}", f"{row['targets']:,}",
            *(str(row["faults"].get(fault, 0)) for fault in few),
            *(str(row["how"].get(e, 0)) for e in endings),
        ]
        for row in rows
        if row["there"]
    ]  # fmt: skip
    return table(head, lines, ("of",))


def _figures(rows: list[Row]) -> list[str]:
    """Say what was measured of every target: megabytes at the peak, beyond the libraries."""
    measured = [row for row in rows if row.get("figures")]
    if not measured:
        return []
    targets = list(dict.fromkeys(target for row in measured for target in row["figures"]))
    lines = [
        [target, *(f"{row['figures'].get(target, '')}" for row in measured)] for target in targets
    ]
    title = "Megabytes at the peak, beyond the libraries, with a budget of 128 MB (0: refused, or "
    title += "no more than for a small file):"
    return [title, table(("file", *(row["subject"] for row in measured)), lines, ("file",))]


def _breaks(rows: list[Row]) -> list[str]:
    count = _broken(rows)
    if not count:
        return ["Nothing broke."]
    broken = [(row, one) for row in rows for one in row["broken"]]
    lines = [
        f"- {row['subject']}, {one['fault']}, `{one['target']}`: {' '.join(one['why'].split())}"
        for row, one in broken
    ]
    return [f"{count} broke, of which:", "\n".join(lines)]


def _tried(rows: list[Row]) -> int:
    return sum(sum(row["how"].values()) for row in rows)


def _broken(rows: list[Row]) -> int:
    return sum(row["how"].get("broken", 0) for row in rows)


def read(results: Path) -> tuple[dict[str, Any], list[Row]]:
    """Return what the results are of, and their rows."""
    first, *rows = [json.loads(line) for line in results.read_text().splitlines()]
    return first["about"], rows


if __name__ == "__main__":
    sys.stdout.write(page())
