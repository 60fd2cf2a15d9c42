"""Checks of places: data sets, runs, stores and servers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from fewpass.flows.checked_runs import MARKS, NOBODY, Finding, examine_run, runs_at
from fewpass.flows.commands import contents
from fewpass.flows.display.bars import ShowWork
from fewpass.flows.refusals import UsageError
from fewpass.pipeline.models.refresh.store_state import published, run_of
from fewpass.pipeline.runs.run_faults import not_covered
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_series import runs_of
from fewpass.pipeline.sizes import counted
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.kinds import instead, kind_of
from fewpass.storage.redaction import without_secrets

DATE = "{date}"
SERVERS = ("http://", "https://")
SCHEDULERS = ("tcp://", "tls://")


class Check(NamedTuple):
    """Options of a check."""

    quick: bool
    free: bool
    patience_s: float
    show: ShowWork
    on_fault: Callable[[str], None]


def checked(places: Iterable[str], how: Check) -> Iterator[Finding]:
    """Yield what a check finds at every place; a run that is below two of them once."""
    seen: set[str] = set()
    for place in places:
        for finding in _of_place(place, how, seen):
            seen |= {finding.folder} if finding.folder else set()
            yield finding


def _of_place(place: str, how: Check, seen: set[str]) -> Iterator[Finding]:
    if place.startswith(SCHEDULERS):
        yield _scheduler(place, how)
        return
    if place.startswith(SERVERS):
        yield _server(place, how)
        return
    try:
        yield from _of_folder(place, how, seen)
    except (OSError, ValueError) as error:
        how.on_fault(str(error))
        why = str(error).rstrip(".")
        damaged = (str(error),) if isinstance(error, Damaged) else ()
        yield Finding(without_secrets(place), False, why, "unknown", damaged=damaged)


def _of_folder(place: str, how: Check, seen: set[str]) -> Iterator[Finding]:
    if DATE in place:
        yield _newest_run(place, how)
        return
    folder = Folder(place)
    is_run = any(folder.exists(key) for key in MARKS)
    kind = "run" if is_run else kind_of(folder)
    if kind == "data set":
        yield _data_set(place, how)
    elif kind == "snapshot":
        yield _read_through(Finding(place, True, "", kind), how)
    elif kind == "store":
        yield _store(place, how)
    elif kind in ("run", "generation", "folder"):
        yield from (_run(url, how) for url in runs_at(folder) if url not in seen)
    else:
        yield Finding(place, False, instead(folder, "any").rstrip("."), kind)


def _server(place: str, how: Check) -> Finding:
    shown = without_secrets(place)
    try:
        with urlopen(place, timeout=how.patience_s) as answer:  # noqa: S310 - http(s), see SERVERS
            status = int(answer.status)
    except HTTPError as error:
        status = error.code
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        return Finding(shown, False, f"no answer ({reason})", "server")
    if not how.quick and shown == place and Folder(place).exists("manifest.json"):
        return _data_set(place, how)
    return Finding(shown, status == 200, f"answers with status {status}", "server")


def _scheduler(place: str, how: Check) -> Finding:
    host, _, port = place.partition("://")[2].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=how.patience_s):
            return Finding(place, True, "takes connections", "scheduler")
    except ValueError:
        raise UsageError(f"{place} has no port. Write for example tcp://127.0.0.1:8786.") from None
    except OSError as error:
        return Finding(place, False, f"takes no connection ({error})", "scheduler")


def _data_set(place: str, how: Check) -> Finding:
    rows = Dataset.open(place).manifest.n_rows
    said = f"a data set of {counted(rows, 'row')}"
    return _read_through(Finding(without_secrets(place), True, said, "data set"), how)


def _store(place: str, how: Check) -> Finding:
    current = published(place)
    if current is None:
        return Finding(place, False, "nothing is published yet", "store")
    finding = Finding(place, True, current.sentence(), "store")
    return _read_through(finding, how, run_of(place, current))


def _newest_run(pattern: str, how: Check) -> Finding:
    newest = next(runs_of(pattern), None)
    if newest is None:
        return Finding(pattern, False, "no run is there yet", "schedule")
    finding = _run(newest.url, how)
    at_rest = finding.why.startswith(NOBODY)
    why = f"{newest.folder.name}: {finding.why}" + (", and it is not finished" if at_rest else "")
    return finding._replace(place=pattern, ok=finding.ok and not at_rest, why=why, kind="schedule")


def _run(url: str, how: Check) -> Finding:
    try:
        finding = examine_run(url, free=how.free)
    except (OSError, ValueError) as error:
        how.on_fault(str(error))
        finding = Finding(url, False, str(error).rstrip("."), "run", folder=RunFolder(url).url)
    if finding.alive and not finding.stalled:  # its snapshots come and go
        return finding
    result = _read_through(finding, how)
    return result if how.quick else result._replace(not_covered=tuple(not_covered(RunFolder(url))))


def _read_through(finding: Finding, how: Check, place: str | None = None) -> Finding:
    """Read every byte, unless the check is a quick one."""
    if how.quick:
        return finding
    damaged = []
    for fault in contents.faults(place or finding.place, how.show):
        how.on_fault(fault)
        damaged.append(fault)
    count = counted(len(damaged), "damaged object")
    why = ", ".join(filter(None, (finding.why, count if damaged else "every byte as written")))
    return finding._replace(ok=finding.ok and not damaged, why=why, damaged=tuple(damaged))
