"""Options that are short for others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

SHORT, FORMS = "--additive", ("splines", "additive")


def spelled_out(tokens: Sequence[str]) -> list[str]:
    """Return the words of a command line, `--additive [splines]` as `--encode` has it."""
    return [*_spelled_out(tokens)]


def _spelled_out(tokens: Sequence[str]) -> Iterator[str]:
    skip = False
    for k, word in enumerate(tokens):
        name, _, value = word.partition("=")
        following = tokens[k + 1] if k + 1 < len(tokens) else ""
        if skip:
            skip = False
        elif name != SHORT:
            yield word
        else:
            skip = not value and following in FORMS
            yield from ("--encode", value or (following if skip else FORMS[-1]))
