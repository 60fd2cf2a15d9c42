"""`fewpass doctor`: which runs are dead without anybody knowing, and what would go on."""

# ruff: noqa: PLC0415

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from fewpass.flows.options import OUTPUT, Output, named
from fewpass.pipeline.errors import BadInput

if TYPE_CHECKING:
    from fewpass.flows.dead_runs import Finding


def doctor(
    *runs: Annotated[str, named("RUN...")],
    dry_run: bool = False,
    compiled: Annotated[bool, named("--compile")] = False,
    output: Output = OUTPUT,
) -> int:
    """Find runs whose process has died, free them, and say how to continue them.

    Looks at the runs named or below the folders named, and at all runs of the Prefect server in
    PREFECT_API_URL.  A dead flow run is marked crashed, which frees its concurrency slot, and its
    lease is removed.  One that is alive and has made no progress for ten times as long as is usual
    for it is reported as stalled, and the exit status is 1.

    Parameters
    ----------
    runs
        Folders or addresses of runs, or of what they lie in.
    dry_run
        Change nothing; exit with 1 when something is dead.
    compiled
        Tell which kernels are compiled on this machine; without runs, nothing else.
    """
    from fewpass.flows.dead_runs import each_once, examine_folder, run_folders
    from fewpass.flows.display.console import Terminal

    server = os.environ.get("PREFECT_API_URL")
    if compiled and not runs:
        facts, text = _kernels()
        Terminal(output).result({"kernels": facts}, text)
        return 0
    if not runs and not server:
        raise BadInput(
            "There is nothing to look at. Name run folders, or set PREFECT_API_URL to look at a "
            "Prefect server's runs."
        )
    findings: list[Finding] = []
    if server:
        from fewpass.flows.orchestration.silent_runs import examine_server  # two seconds

        findings += examine_server(fix=not dry_run)
    findings += [examine_folder(url, fix=not dry_run) for url in run_folders(runs)]
    findings = each_once(findings)
    ill = sum(finding.alive is False for finding in findings)
    stuck = sum(finding.stalled for finding in findings)
    facts = {
        "server": server,
        "ill": ill,
        "stalled": stuck,
        "runs": [finding._asdict() for finding in findings],
    }
    text = _report(findings, ill, stuck)
    if compiled:
        facts["kernels"], about_kernels = _kernels()
        text = f"{text}\n{about_kernels}"
    Terminal(output).result(facts, text)
    return 1 if stuck or (ill and dry_run) else 0


def _kernels() -> tuple[dict[str, object], str]:
    """Return what is compiled here, as facts and as text."""
    from fewpass.pipeline.compiled_kernels import compiled_kernels
    from fewpass.pipeline.sizes import format_bytes

    there = compiled_kernels()
    where = ", ".join(f"{n} of {package}" for package, n in there.by_package.items())
    size, where = format_bytes(there.n_bytes), f", {where}" if where else ""
    lines = [
        f"Compiled kernels in {there.folder}: {there.kernels} of this version ({size}){where}."
    ]
    for file, why in there.damaged.items():
        lines.append(f"  {file} is damaged: {why}. It will be compiled anew.")
    lines.append(f"{there.of_others} of other versions ({format_bytes(there.bytes_of_others)}).")
    if not there.kernels:
        lines.append("Trainings compile what they need; fewpass warm-up compiles the usual ones.")
    return there._asdict(), "\n".join(lines)


def _report(findings: Sequence[Finding], ill: int, stuck: int) -> str:
    lines: list[str] = []
    for finding in findings:
        state = {True: "alive", False: "dead", None: "at rest"}[finding.alive]
        state = "stalled" if finding.stalled else state
        lines += [f"{finding.what}: {state}", f"  {finding.why}"]
        lines += [f"  {act}" for act in finding.done]
        lines.append(f"  {finding.resume}")
    count = f"{len(findings)} run{'s' * (len(findings) != 1)} looked at"
    return "\n".join([*lines, f"{count}, {ill} dead, {stuck} stalled."])
