"""Commands on files that ask for much memory: what each takes at its peak, beyond the libraries.

What a command takes for a small file of the same kind, once its kernels are compiled, is the
libraries, and is taken off.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.faults.families import Case
from tests.faults.sandbox import Sandbox
from tests.faults.shapes import SHAPES, Shape
from tests.faults.verdict import UNEXPECTED, Verdict, broken

BUDGET, BUDGET_MB = "128MB", 128
COPIES = 5  # of what pyarrow decodes at once, at most
MOST_SECONDS, MOST_BYTES = 120.0, 3 << 30  # of a case: then it is ended
LOOK_S = 0.05
COMMANDS = ("ingest", "train", "predict", "evaluate")
CHILD = """
import os, sys
from pathlib import Path
from fewpass.flows.cli import main
from fewpass.pipeline.memory import peak_memory_bytes
status = main(sys.argv[2:])
compiled = "numba.np.arraymath" in sys.modules  # which kernels on disk are loaded without
Path(sys.argv[1]).write_text(f"{peak_memory_bytes()} {compiled:d}")
sys.exit(status)
"""


class Taken(NamedTuple):
    """What a command took."""

    status: int
    peak: int  # bytes
    seconds: float
    said: str
    stopped: str = ""  # why it was ended
    compiled: bool = False  # kernels, which takes memory too


def memory_shapes(sandbox: Sandbox, command: str) -> Iterator[Case]:
    """Every shape, read by a command with the least budget."""
    for name in SHAPES:
        yield Case(
            "P13", command, f"`--memory {BUDGET}`", name,
            lambda n=name: tried(sandbox, command, n),
        )  # fmt: skip


def tried(sandbox: Sandbox, command: str, name: str) -> Verdict:
    """Read a shape by a command, and say whether it kept to the budget."""
    shape, at = SHAPES[name], sandbox.root / "shapes"
    shutil.rmtree(at, ignore_errors=True)
    for folder in ("plain", "large"):
        (at / folder).mkdir(parents=True)
    shape.plain(at / "plain" / shape.name)
    if command in ("predict", "evaluate"):
        _require_done(_run(at, ["train", *_reading(at / "plain" / shape.name, shape, at)]))
    words = _words(command, at / "plain" / shape.name, shape, at)
    first = _run(at, words)
    if first.status == 2 and "memory" in first.said:  # the columns alone have no room
        return Verdict("refused", figure=0)
    _require_done(first)
    libraries = (_require_done(_run(at, words)) if first.compiled else first).peak
    _write_elsewhere(name, at / "large" / shape.name)
    found = _run(at, _words(command, at / "large" / shape.name, shape, at))
    shutil.rmtree(at)
    most = BUDGET_MB + COPIES * shape.at_once
    return _evaluated(found, (found.peak - libraries) / 1e6, most)


def _evaluated(found: Taken, beyond: float, most: int) -> Verdict:
    figure = round(max(0.0, beyond))
    if found.stopped or any(word in found.said for word in UNEXPECTED):
        return broken(f"{found.stopped} {found.said}")._replace(figure=figure)
    if beyond > most:
        why = f"it took {figure} MB beyond the libraries: {found.said[-200:]}"
        return broken(why)._replace(figure=figure)
    if found.status not in (0, 2):
        return broken(f"ended with {found.status}: {found.said}")._replace(figure=figure)
    return Verdict("refused" if found.status else "harmless", figure=figure)


def _reading(path: Path, shape: Shape, at: Path) -> list[str]:
    label = ["--label", "y"] if shape.labelled else []
    return [str(path), str(at / "run"), "--scheduler", "none", *label]


def _words(command: str, path: Path, shape: Shape, at: Path) -> list[str]:
    label = ["--label", "y"] if shape.labelled else []
    memory = ["--memory", BUDGET]
    if command == "ingest":
        return ["ingest", str(path), str(at / "set"), "--overwrite", *memory, *label]
    if command == "train":
        return ["train", *_reading(path, shape, at), *memory]
    if command == "predict":
        out = at / "out.csv"
        return ["predict", str(at / "run"), str(path), str(out), "--overwrite", *memory]
    return ["evaluate", str(at / "run"), str(path), *memory, *label]


def _require_done(taken: Taken) -> Taken:
    if taken.status:
        raise ValueError(f"A small file was not read: {taken.said[-300:]}")
    return taken


def _write_elsewhere(name: str, path: Path) -> None:
    """Write a shape in a process of its own: making it takes memory, too."""
    make = "import sys; from pathlib import Path; from tests.faults.shapes import SHAPES; "
    make += "SHAPES[sys.argv[1]].write(Path(sys.argv[2]))"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", make, name, str(path)], check=True, cwd=root)


def _run(at: Path, words: list[str]) -> Taken:
    """Run a command in a process that tells its peak; one that takes too much is ended."""
    told, log = at / "peak", at / "said"
    told.unlink(missing_ok=True)
    if words[0] == "train":
        shutil.rmtree(at / "run", ignore_errors=True)
    began, peak, stopped = time.monotonic(), 0, ""
    with log.open("w") as out:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(told), *words], stdout=out, stderr=out
        )
        while child.poll() is None and not stopped:
            peak = max(peak, _peak_of(child.pid))
            if peak > MOST_BYTES:
                stopped = f"it took {peak >> 20} MiB and was ended."
            elif time.monotonic() - began > MOST_SECONDS:
                stopped = f"it took {MOST_SECONDS:.0f} s and was ended."
            else:
                time.sleep(LOOK_S)
        if stopped:
            child.kill()
        status = child.wait()
    own, compiled = map(int, told.read_text().split()) if told.exists() else (0, 0)
    said = " ".join(log.read_text().split())
    seconds = time.monotonic() - began
    return Taken(status, max(peak, own), seconds, said[-600:], stopped, bool(compiled))


def _peak_of(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0]) << 10 if found else 0
