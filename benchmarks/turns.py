"""Contestants that take turns in one process, and the options of scripts with such contests."""

from __future__ import annotations

import time
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.suite.certified_fits import Fit
from benchmarks.suite.linear_peers import quiet
from testing.results import study_options


class Entrant(NamedTuple):
    """A contestant, made ready, and how hard it has to try."""

    fit: Fit
    effort: Any


def in_turns(entrants: dict[str, Entrant], turns: int) -> dict[str, tuple[float, np.ndarray]]:
    """Return the least CPU seconds of every contestant, and its weights."""
    best: dict[str, tuple[float, np.ndarray]] = {}
    for _ in range(turns):
        for peer, (fit, effort) in entrants.items():
            began = time.process_time()
            with quiet():
                w = fit(effort)
            seconds = time.process_time() - began
            best[peer] = min(seconds, best.get(peer, (seconds, w))[0]), w
    return best


def contest_options(doc: str | None, names: Iterable[str]) -> ArgumentParser:
    """Return the options of every script of contests: sets, results, turns and a limit."""
    options = study_options(doc, names)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--limit", type=int, default=60, help="CPU seconds of a fit")
    return options


def begun(options: ArgumentParser) -> Namespace:
    """Read the options of a script; from now on no contestant warns, and its folder is there."""
    given = options.parse_args()
    warnings.simplefilter("ignore")
    given.folder.mkdir(parents=True, exist_ok=True)
    return given
