"""All families of cases: of what, how many there are in a sample, and what their targets are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from tests.faults import (
    caches,
    changes,
    exposure,
    families,
    fuzzing,
    lying,
    memory,
    scored_cells,
    small_files,
    web_sources,
)
from tests.faults.families import STORED, Case, Family
from tests.faults.sandbox import Sandbox, chance
from tests.faults.subjects import SUBJECTS

SEED = 17


class Kind(NamedTuple):
    """A family with its subjects.

    Attributes
    ----------
    title, targets
        What is done, and what it is done to, in the words of the page.
    quick, full
        Cases per subject in a sample, and in the long run; None for all of them.
    whole
        Subjects of which the long run tries all cases.
    """

    cases: Family
    subjects: tuple[str, ...]
    title: str
    targets: str
    quick: int
    full: int | None
    whole: tuple[str, ...] = ()

    def most(self, subject: str, there: int, size: float) -> int:
        """Return how many of a subject's cases a share of the long run tries."""
        full = there if self.full is None or subject in self.whole else min(there, self.full)
        return max(1, math.ceil(size * full)) if there else 0


EVERYTHING = tuple(SUBJECTS)
CATALOGUE = {
    "kills at calls": Kind(
        families.kills_at_calls, EVERYTHING, "Killed at a call", "calls", 1, 40
    ),
    "kills at moments": Kind(
        families.kills_at_moments, EVERYTHING, "Killed at a random moment", "moments", 1, 24
    ),
    "kills on Dask": Kind(
        families.kills_on_dask, ("sdca", "s2gd+", "asgd", "three classes"),
        "Killed while Dask runs its tasks", "moments", 0, 8,
    ),
    "failing calls": Kind(
        families.failing_calls, EVERYTHING, "A call fails", "calls", 1, 60,
        whole=("ingest of a table", "columns", "predict", "asgd", "s2gd+", "sdca", "newton",
               "simba"),
    ),
    "power cuts": Kind(families.power_cuts, EVERYTHING, "The power goes", "calls", 1, 40),
    "damaged objects": Kind(
        families.damaged_objects, tuple(STORED), "An object is damaged", "objects", 1, 45
    ),
    "lying documents": Kind(
        lying.lying_documents, tuple(lying.DOCUMENTS), "A document lies", "members", 3, 80
    ),
    "lying numbers": Kind(
        lying.lying_attributes, lying.ATTRIBUTES, "A snapshot's numbers lie", "members", 1, 50
    ),
    "lying arrays": Kind(
        lying.lying_arrays, lying.ATTRIBUTES, "A snapshot's arrays lie", "arrays", 1, None
    ),
    "pipes": Kind(
        exposure.pipes, tuple(exposure.PLACES), "A pipe in place of an object", "objects", 2, None
    ),
    "links": Kind(
        exposure.links, tuple(exposure.PLACES), "A link that leaves the folder", "objects", 3, None
    ),
    "addresses": Kind(
        exposure.addresses, tuple(exposure.REACHES), "An address that reaches out", "addresses",
        3, None,
    ),
    "secrets": Kind(
        exposure.secrets, exposure.SECRETIVE, "A secret in an address", "addresses", 1, None
    ),
    "web sources": Kind(
        web_sources.web_sources, web_sources.READERS, "A server that answers badly", "answers",
        2, None,
    ),
    "memory shapes": Kind(
        memory.memory_shapes, memory.COMMANDS, "Files that ask for much memory", "shapes", 1, 12,
        whole=("ingest",),
    ),
    "caches": Kind(
        caches.damaged_caches, caches.CACHED, "A compiled kernel is damaged", "kernels", 1, 24
    ),
    "fuzzed files": Kind(
        fuzzing.fuzzed_files, tuple(small_files.FILES), "A file is changed at random", "kinds",
        9, None,
    ),
    "odd cells": Kind(  # the suite tries them in tests/pipeline/test_one_answer.py
        scored_cells.scored_cells, scored_cells.MODELS, "An odd cell, scored in every way", "columns",
        0, 60,
    ),
    "two changes": Kind(
        changes.two_changes, tuple(changes.PAIRS), "Two changes at once", "calls", 1, 60
    ),
    "names of others": Kind(
        changes.sets_that_name_others, ("append", "forget"), "A data set names another's",
        "data sets", 2, None,
    ),
    "ports": Kind(  # the suite looks at them in tests/flows/test_ports.py
        exposure.ports, tuple(exposure.WAYS), "Sockets looked at", "ways", 0, None
    ),
}  # fmt: skip


def sample(
    sandbox: Sandbox, kind: str, subject: str, most: int | None, seed: int = SEED
) -> tuple[list[Case], list[Case]]:
    """Return all cases of a subject, and those to try: at most so many, drawn by the seed.

    Every target comes in turn, so that a small sample has of each.
    """
    every = list(CATALOGUE[kind].cases(sandbox, subject))
    if most is None or most >= len(every):
        return every, every
    by_target: dict[str, list[Case]] = {}
    for case in chance(seed, kind, subject).sample(every, len(every)):
        by_target.setdefault(case.target, []).append(case)
    return every, list(itertools.islice(_in_turn(list(by_target.values())), most))


def _in_turn(groups: list[list[Case]]) -> Iterator[Case]:
    for number in range(max(map(len, groups), default=0)):
        yield from (group[number] for group in groups if number < len(group))
