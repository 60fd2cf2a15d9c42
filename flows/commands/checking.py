"""`fewpass check`: whether places, or the installation, are in order."""
# ruff: noqa: PLC0415

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fewpass.flows.options import OUTPUT, Output
from fewpass.pipeline.durations import parse_seconds

if TYPE_CHECKING:
    from fewpass.flows.checked_runs import Finding


def check(
    places: tuple[str, ...] = (),
    /,
    *,
    quick: bool = False,
    free: bool = False,
    timeout: str = "5s",
    output: Output = OUTPUT,
) -> int:
    """Check that data sets, runs, stores or servers are in order.

    The exit status is 1 where something is not. A data set or a snapshot is in order when every
    byte is as written; a run when, besides, its process is neither dead nor without progress for
    ten times as long as is usual; a folder when all runs below are; a schedule, an address with
    {date} in it, when its newest run is, and is finished or being trained; a store when its
    published model is there; a server (http://...) when it answers with status 200; a Dask
    scheduler or worker (tcp://...) when it takes a connection.

    Without places: the compiled kernels of this machine, and all runs of the Prefect server in
    PREFECT_API_URL.

    Parameters
    ----------
    places
        Data sets, runs, snapshots, stores, schedules, servers and schedulers.
    quick
        Read manifests and leases alone, not every byte; for the probe of a container.
    free
        Free runs whose process is dead: their leases are removed, their flow runs are marked
        crashed, which frees their concurrency slots.
    timeout
        How long a server may take to answer.
    """
    from fewpass.flows.commands.checked_places import Check, checked
    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import Terminal

    terminal = Terminal(output)
    patience_s = float(parse_seconds(timeout))
    facts: dict[str, Any] = {}
    with work_display(terminal, "Checking") as show:
        how = Check(quick, free, patience_s, show, lambda text: terminal.say(text, style="red"))
        findings = [*(checked(places, how) if places else _flow_runs(free=free))]
    if not places:
        facts = {"kernels": _kernels()}
    facts |= {
        "ok": all(one.ok for one in findings),
        "places": [one._asdict() for one in findings],
    }
    text = "\n".join([*_lines(findings), *_about_kernels(facts.get("kernels"))])
    terminal.result(facts, text)
    return 0 if facts["ok"] else 1


def _flow_runs(*, free: bool) -> Iterable[Finding]:
    if not os.environ.get("PREFECT_API_URL"):
        return []
    from fewpass.flows.orchestration.silent_runs import examine_server  # two seconds

    return examine_server(free=free)


def _kernels() -> dict[str, Any]:
    from fewpass.pipeline.compiled_kernels import compiled_kernels

    return compiled_kernels()._asdict()


def _about_kernels(there: Mapping[str, Any] | None) -> Iterator[str]:
    from fewpass.pipeline.sizes import format_bytes

    if there is None:
        return
    count, size = there["kernels"], format_bytes(there["n_bytes"])
    yield f"Compiled kernels for {there['compiled_for']}: {there['packaged']} in the package."
    yield f"In {there['folder']}: {count} of these versions ({size})."
    for file, why in there["damaged"].items():
        yield f"  {file} is damaged: {why}. It will be compiled anew."
    others = format_bytes(there["bytes_of_others"])
    yield f"{there['of_others']} of other versions or for other processors ({others})."
    if not count and not there["packaged"]:
        yield "Trainings compile what they need; fewpass warm-up compiles the usual ones."


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    for one in findings:
        left_out = f" Not read: {'; '.join(one.not_covered)}." if one.not_covered else ""
        yield f"{one.place}: {'ok' if one.ok else 'NOT OK'}, {one.why}.{left_out}"
        yield from (f"  {text}" for text in (*one.done, one.advice) if text)
