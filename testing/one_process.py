"""Commands one after the other in one process that began afresh: a start costs a second or two."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

LOOP = """
import contextlib, io, json, runpy, sys
from fewpass.flows.cli import main

def do(program, *words):
    if program == "fewpass":
        return main(list(words))
    if program == "python":
        sys.argv = list(words)
        runpy.run_path(words[0], run_name="__main__")
    else:
        exec(program, {})
    return 0

for command in json.loads(sys.argv.pop()):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = do(*command)
        except BaseException as error:
            status = 70
            print(f"{type(error).__name__}: {error}", file=err)
    print(json.dumps([status, out.getvalue(), err.getvalue()]), flush=True)
"""


class Said(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


def run_all(
    commands: list[list[str]], folder: Path, environment: dict[str, str], *, first: str = ""
) -> list[Said]:
    """Run `fewpass` with words, `python` with a script, or a text of Python; `first` comes before."""
    how: dict[str, Any] = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
    done = subprocess.run(
        [sys.executable, "-c", first + LOOP, json.dumps(commands)], check=False, **how
    )
    said = [Said(*json.loads(line)) for line in done.stdout.splitlines()]
    assert len(said) == len(commands), done.stderr
    return said
