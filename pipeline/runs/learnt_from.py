"""Which runs have learnt from a data set, or from one of its generations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.kinds import RUN_KEY

#: Folders below the one that is looked through: a store's runs lie two deep.
DEEPEST = 3


class LearntRun(NamedTuple):
    """A run, and the data set that it learnt from."""

    run: str
    fingerprint: str


def learnt_from(
    runs: str, fingerprints: Collection[str], storage_options: dict[str, Any] | None = None
) -> list[LearntRun]:
    """Return the runs in a folder, up to three deep, that have learnt from certain data sets.

    One whose record is damaged is passed over: `fewpass verify` names it.
    """
    every = (_learnt(url, storage_options) for url in _runs_in(runs, storage_options))
    return [one for one in every if one is not None and one.fingerprint in fingerprints]


def _learnt(url: str, storage_options: dict[str, Any] | None) -> LearntRun | None:
    try:
        return LearntRun(url, RunFolder(url, storage_options).record().dataset_fingerprint)
    except (Damaged, ValueError, OSError):
        return None


def _runs_in(runs: str, storage_options: dict[str, Any] | None) -> Iterator[str]:
    folder = Folder(runs, storage_options)
    if folder.is_local:
        here = folder.local_path()
        patterns = ("/".join(["*"] * deep + [RUN_KEY]) for deep in range(DEEPEST + 1))
        yield from sorted(str(path.parent) for pattern in patterns for path in here.glob(pattern))
        return
    for key in folder.list():
        if key.rpartition("/")[2] == RUN_KEY and key.count("/") <= DEEPEST:
            yield folder.address(key).rpartition("/")[0]
