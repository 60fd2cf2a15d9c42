"""Pages as strangers walk them: commands in their order, each with what the page shows below it."""

import re
from pathlib import Path

import numpy as np

from tests.conftest import PROJECT

NEAR = 0.05  # how far a figure may be from the one shown: another processor rounds otherwise
#: The end of a line of progress, from the rows a second on: how fast it was is the machine's.
SPEED = re.compile(r" +[\d,]+ +[\d.]+ +\d+ MB .*")
NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def sessions(page):
    """Yield the commands of a page, each with what is shown below it."""
    text = (PROJECT / page).read_text(encoding="utf-8")
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = session.replace("\\\n", " ").partition("\n")
            yield command, output


def unsaid(shown, printed):
    """Return the lines shown that no printed line says, or begins with."""
    said = [*map(_parts, printed.replace(f"{Path.cwd()}/", "").splitlines())]
    lines = [line for line in shown.splitlines() if line.strip() not in ("", "...")]
    return [line for line in lines if not any(_begins(one, _parts(line)) for one in said)]


def _parts(line):
    """Return the words of a line, with # for numbers, and the numbers."""
    line = SPEED.sub("", line)
    numbers = [float(number.replace(",", "")) for number in NUMBER.findall(line)]
    return NUMBER.sub("#", line).split(), numbers


def _begins(said, shown):
    words, numbers = shown
    return said[0][: len(words)] == words and np.allclose(
        said[1][: len(numbers)], numbers, rtol=NEAR, atol=0.0
    )
