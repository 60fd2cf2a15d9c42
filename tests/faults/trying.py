"""A test of a sample of cases: every broken promise is told at once."""

from __future__ import annotations

import pytest

from tests.faults.catalogue import CATALOGUE, sample
from tests.faults.promises import PROMISES
from tests.faults.workshop import Workshop


def subjects(*kinds: str) -> pytest.MarkDecorator:
    """Parametrise a test by kind of case and subject."""
    pairs = [(kind, s) for kind in kinds for s in CATALOGUE[kind].subjects if CATALOGUE[kind].quick]
    return pytest.mark.parametrize(("kind", "subject"), pairs, ids=[f"{k}: {s}" for k, s in pairs])


def require_kept(shop: Workshop, kind: str, subject: str) -> None:
    """Try the sample; AssertionError names each broken promise, its object and the fault."""
    _, cases = sample(shop, kind, subject, CATALOGUE[kind].quick)
    found = [(case, case.run()) for case in cases]
    broken = [
        f"{c.promise} ({PROMISES[c.promise]}) {c.subject}, {c.fault}, {c.target}: {v.why}"
        for c, v in found
        if v.how == "broken"
    ]
    assert not broken, "\n".join(broken)
