"""What is said of words on the command line that a command does not take."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import get_args

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
)

#: How other programs, and haste, call an option.
OTHER_NAMES = {
    "tol": "tolerance epsilon eps stopping-tolerance",
    "lam": "alpha c reg reg-param l2 lambda penalty",
    "passes": "epochs epoch n-epochs max-iter max-iterations iterations iter",
    "solver": "method algorithm optimizer optimiser",
    "loss": "loss-function objective",
    "threads": "n-jobs jobs cores num-threads",
    "label": "target y response outcome positive-label",
    "delimiter": "sep separator",
    "quote": "quoting quotechar quote-char",
    "seed": "random-state random-seed",
    "intercept": "fit-intercept bias",
    "features": "n-features num-features",
    "held-out": "validation valid holdout eval-set",
    "test-fraction": "test-size split holdout-fraction",
    "stop-early": "early-stopping early-terminate",
    "charset": "encoding",
    "missing": "na na-values nan",
    "overwrite": "force",
    "probability": "proba probabilities predict-proba",
    "start-from": "warm-start init initial-model",
    "memory": "ram mem memory-limit",
    "drop": "ignore exclude",
    "hash-bits": "bits b",
    "html": "page",
}
_MEANT = {other: name for name, others in OTHER_NAMES.items() for other in others.split()}
_ALIKE = 0.8  # of difflib's measure
_KINDS = {int: "a whole number", float: "a number", bool: "yes or no"}


def told(error: CycloptsError) -> str:
    """Return a sentence about what is wrong with a command line, and one of advice."""
    command = " ".join(error.command_chain or ())
    advice = " ".join(("fewpass", *(error.command_chain or ()), "--help")) + " shows what there is."
    if isinstance(error, UnknownOptionError):
        return _unknown(error, command, advice)
    if isinstance(error, MissingArgumentError):
        return f"{_missing(error, command)} {advice}"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        said = f"{command} takes {_places(error)}, and {error.unused_tokens[0]!r} is too much."
        return f"{said} {advice}"
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword} is given more than once. Give it once."
    if isinstance(error, CoercionError) and (kind := _kind_of(error)) and error.token:
        name = error.token.keyword or (error.argument.name if error.argument else "")
        return f"{name} takes {kind}, not {error.token.value!r}. {advice}"
    return f"{error} {advice}"


def _kind_of(error: CoercionError) -> str | None:
    """Say in words what should have been given, where there are words for it."""
    hint = error.target_type or (error.argument.hint if error.argument else None)
    return next((_KINDS[arm] for arm in (hint, *get_args(hint)) if arm in _KINDS), None)


def nearest(word: str, options: Iterable[str]) -> str | None:
    """Return the option that is meant by what somebody wrote; None where nobody could know."""
    names = [name[2:] for name in options if name.startswith("--")]
    wanted = re.sub("[_-]+", "-", word.lstrip("-").partition("=")[0]).lower()
    known = {name: name for name in names}
    known |= {other: name for other, name in _MEANT.items() if name in names}
    begun = [name for name in names if len(wanted) > 2 and name.startswith(wanted)]
    if wanted in known or len(begun) == 1:
        return f"--{known[wanted] if wanted in known else begun[0]}"
    near = get_close_matches(wanted, known, n=1, cutoff=_ALIKE)
    return f"--{known[near[0]]}" if near else None


def _unknown(error: UnknownOptionError, command: str, advice: str) -> str:
    word = error.token.keyword or error.token.value
    near = nearest(word, [name for one in error.argument_collection for name in one.names])
    said = f"{command} has no option {word}." if command else f"There is no option {word}."
    return f"{said} Did you mean {near}?" if near else f"{said} {advice}"


def _missing(error: MissingArgumentError, command: str) -> str:
    name = error.keyword or (error.argument.name if error.argument else "")
    if name.startswith("-"):
        return f"{name} needs a value after it."
    return f"{command} takes {_places(error)}, and {name} is missing."


def _places(error: CycloptsError) -> str:
    """Return what a command takes besides options, in its order: DATASET RUN."""
    known = error.app.assemble_argument_collection() if error.app else ()
    return " ".join(one.name for one in known if one.name[0] not in "-*") or "options alone"
