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
#: Kinds that files of the rooms try case by case, without commands: here a few of their subjects, by
#: commands.
FEW = {
    # tests/storage/test_dataset.py, test_snapshot.py, test_row_state.py, test_columns.py
    "damaged objects": (
        "data set: ingest of text", "rows of an ingest wide", "run: asgd", "killed run: sdca",
        "killed run: simba",
    ),
    # tests/pipeline/runs/test_run_record.py, tests/storage/test_snapshot.py
    "lying numbers": ("s2gd+", "a grid of lam", "onepass"),
    "lying arrays": ("sdca", "newton", "simba, sparse"),
    # test_run_record.py, tests/storage/test_addresses.py
    "pipes": ("data set: ingest of a table", "killed run: sdca"),
    "links": ("column copy: sparse", "rows of an ingest of text", "killed run: sdca"),
    # tests/flows/test_secrets.py, tests/storage/test_addresses.py
    "secrets": ("predict",),
    "addresses": ("dataset of a record", "argument"),
    # tests/pipeline/tables/readers/test_web_sources.py
    "web sources": ("train straight", "predict"),
    # tests/pipeline/tables/changing/test_two_changes.py, test_set_pairs.py
    "two changes": ("forget within append", "ingest within forget", "append within ingest"),
    "names of others": ("forget",),
    # tests/solvers/kernels/test_kernel_files.py
    "caches": ("asgd",),
    # tests/pipeline/tables/ingest/test_memory.py, tests/pipeline/tables/stream/test_source_memory.py
    "memory shapes": ("predict",),
}  # fmt: skip


def tried():
    """Every kind of fault; those that are done to every command are here done to every fourth."""
    places = itertools.count()
    for kind, of in CATALOGUE.items():
        step = 4 if of.subjects == EVERYTHING else 1  # each in another place: no command is spared
        begin = next(places) % step if step > 1 else 0
        subjects = [s for s in of.subjects if s.rpartition("run: ")[2] not in LIKE_OTHERS]
        subjects = FEW.get(kind, subjects[begin::step])
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
