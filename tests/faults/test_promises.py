"""All promises but P6: a small sample of every kind of fault, the same one every time.

One file, so that one process tries them all: its sandbox takes a minute to prepare.
"""

import itertools

import pytest

from tests.faults.catalogue import CATALOGUE, EVERYTHING, sample
from tests.faults.promises import PROMISES

#: Methods whose runs are written as those of another here, in walks or in sums; that each goes on from
#: everywhere with the same bits is tests/pipeline/training/test_methods.py.
LIKE_OTHERS = ("sgd", "pegasos", "asdca", "sag", "agd", "gd", "lbfgs")


def tried():
    """Every kind of fault; those that are done to every command are here done to every third.

    What is damaged is the run of one method, finished, and that of the next one, killed.
    """
    places = itertools.count()
    for kind, of in CATALOGUE.items():
        step = 3 if of.subjects == EVERYTHING else 1  # each in another place: no command is spared
        begin = next(places) % step if step > 1 else 0
        subjects = [s for s in of.subjects if s.rpartition("run: ")[2] not in LIKE_OTHERS]
        subjects = subjects[begin::step]
        if kind == "damaged objects":  # a finished and a killed run of each method, in turn
            subjects = [s for k, s in enumerate(subjects) if k % 4 in (0, 3)]
        if kind == "memory shapes":  # of ingests and trainings: tests/pipeline/tables
            subjects = ["predict"]
        yield from ((kind, subject) for subject in subjects if of.quick)


TRIED = list(tried())


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "subject"), TRIED, ids=[f"{k}: {s}" for k, s in TRIED])
def test_promises_are_kept(sandbox, kind, subject):
    """Every promise that is broken is told, with its object and the fault."""
    _, cases = sample(sandbox, kind, subject, CATALOGUE[kind].quick)
    found = [(case, case.run()) for case in cases]
    broken = [
        f"{c.promise} ({PROMISES[c.promise]}) {c.subject}, {c.fault}, {c.target}: {v.why}"
        for c, v in found
        if v.how == "broken"
    ]
    assert not broken, "\n".join(broken)
