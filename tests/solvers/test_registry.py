"""The table of methods, docs/choosing.md, says what the methods declare."""

import re

import numpy as np
import pytest

from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Walk, constant_weights
from fewpass.solvers.registry import METHODS, method_class
from testing.oracles import stats
from tests.conftest import PROJECT

WIDE = 2000  # columns: what a state keeps beside them does not count then
ROWS = re.compile(r"^\| (`[^|]*) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)


def table():
    """Word -> (when, memory); "the same" is taken from the row before."""
    text = (PROJECT / "docs/choosing.md").read_text(encoding="utf-8")
    found, before = {}, ("", "")
    for words, when, _passes, memory in ROWS.findall(text):
        row = tuple(
            b if a.startswith("the same") else a
            for a, b in zip((when, memory), before, strict=True)
        )
        before = row
        first = words.split(", ") if words.count("`") > 2 else [words]
        for word in re.findall(r"`([a-z0-9+]+)`", ", ".join(p for p in first if p.startswith("`"))):
            found.setdefault(word, row)
    return found


def test_every_method_has_a_row():
    assert set(METHODS) <= set(table())


@pytest.mark.parametrize("word", [word for word in METHODS if word != "simba"])
def test_a_row_says_what_a_method_needs_and_keeps(word):
    method, (when, memory) = method_class(word)(), table()[word]
    needs = method.needs
    assert ("smooth losses" in when) == (needs.loss == "smooth")
    assert ("plain hinge alone" in when) == (needs.only_loss is not None)
    told = re.search(rf"`{re.escape(word)}` (\d+)(?! bytes per row)", memory)
    told = told or re.search(r"(\d+) bytes per (pair|column)", memory)
    loss = (needs.only_loss or LOSSES["logistic"])()
    problem, known = Problem(loss, L2(0.1), 0.0, 0.1), stats(np.ones((2, 2)), DenseRows)
    per = WIDE**2 if "per pair" in memory and needs.most_columns else WIDE
    copies = 2 + method.spare_copies  # one stream: pipeline/planning/job.py
    taken = copies * method.state_bytes(problem, known._replace(d=WIDE))
    assert int(told[1]) == pytest.approx(taken / per, rel=0.01)
    if ";" not in memory:
        assert ("bytes per row on disk" in memory) == (needs.numbers_per_row > 0)


@pytest.mark.parametrize("word", [word for word in METHODS if word != "simba"])
def test_what_is_declared_is_so(word):
    method = method_class(word)()
    needs, sweeps = method.needs, [s for epoch in range(20) for s in method.program(epoch)]
    uses = {s.row_state if isinstance(s, Walk) else s.sum.row_state for s in sweeps}
    assert (uses != {"none"}) == (needs.numbers_per_row > 0)
    known = stats(np.ones((2, 2)), DenseRows)
    for kind in LOSSES.values():
        problem = Problem(kind(), L2(0.1), 0.0, 0.1)
        fits = needs.only_loss in (None, kind) and (
            (needs.loss == "any" or kind.is_smooth) and (needs.steep or not kind.is_steep)
        )
        for streams, d in ((1, 2), (2, 2), (1, (needs.most_columns or 5) + 1)):
            own = known._replace(streams=streams, d=d)
            if (
                fits
                and not (needs.one_stream and streams > 1)
                and not (needs.most_columns and d > 2)
            ):
                assert isinstance(method.init(problem, own), method.states[0])
            else:
                with pytest.raises(ValueError, match=r"Use|Take"):
                    method.init(problem, own)
                with pytest.raises(ValueError, match=r"Use|Take|start_from"):
                    method.start_at(problem, own, constant_weights(problem, d), 0)
