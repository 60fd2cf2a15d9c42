"""The cases of damaged kernels: what is done to compiled code on disk before a command loads it.

Other cases have their kernels in the memory of the process that they are forked from; these begin a
process of their own, as a user does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from fewpass.solvers.kernels.kernel_files import damaged_kernels
from tests.faults.damage import Damage, inflict
from tests.faults.families import Case
from tests.faults.sandbox import Sandbox, chance, require_done
from tests.faults.starter import PROJECT, Ended, Said
from tests.faults.subjects import SUBJECTS
from tests.faults.verdict import Verdict, broken, fault_of, same

CACHED = ("ingest of a table", "asgd")
#: `fewpass`, with the places of the kernels that it loads written to a file.
LISTENING = """
import sys
from fewpass.flows.cli import main
from fewpass.solvers.kernels.loading import loaded
told, status = sys.argv.pop(1), main()
with open(told, "w") as file:
    file.write("\\n".join(map(str, loaded)))
sys.exit(status)
"""
#: Few rows are read by the same Python where one of these kernels is deleted (`dispatch.exactly`).
NOT_NEEDED = ".parse_cells.", "csv_quotes._scan."
PATIENCE_S = 300.0  # with a command that compiles everything


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _lengthened(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def _noise(path: Path) -> None:
    path.write_bytes(chance(0, path.name).randbytes(path.stat().st_size))


def _open_to_all(path: Path) -> None:
    path.chmod(0o666)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


ELSE: dict[str, Callable[[Path], None]] = {
    "emptied": _emptied, "longer by a byte": _lengthened, "noise": _noise,
    "open to all": _open_to_all, "a pipe in its place": _pipe,
}  # fmt: skip


def damaged_caches(sandbox: Sandbox, name: str) -> Iterator[Case]:
    """Every kernel that a command loads, damaged in every way, and all of them emptied."""
    kept = _kept(sandbox, name)
    kernels = _kernels(kept)
    for number, path in enumerate(kernels):
        key = str(path.relative_to(kept))
        kinds = ("a bit", "a bit", "a cut", "deleted", "exchanged")
        for turn, kind in enumerate(kinds):
            neighbour = kernels[number - 1].relative_to(kept)
            one = Damage(kind, key, str(neighbour) if kind == "exchanged" else None)
            yield Case("P14", name, kind, path.name, partial(
                _damaged, sandbox, name, [key],
                lambda at, one=one, turn=turn: inflict(at, None, one, chance(turn, one)),
            ))  # fmt: skip
        for kind, damage in ELSE.items():
            yield Case("P14", name, kind, path.name, partial(
                _damaged, sandbox, name, [key], lambda at, d=damage, key=key: d(at / key),
            ))  # fmt: skip
    keys = [str(path.relative_to(kept)) for path in kernels]
    yield Case("P14", name, "emptied", "all kernels", partial(
        _damaged, sandbox, name, keys, lambda at: [_emptied(at / key) for key in keys],
    ))  # fmt: skip


def _kept(sandbox: Sandbox, name: str) -> Path:
    """Return a cache of the kernels that a command loads, copied from where all of them are."""
    kept = sandbox.root / "caches" / name
    if not kept.exists():
        subject, told = SUBJECTS[name], sandbox.root / "loaded"
        sandbox.quiet(subject)  # whatever was missing is compiled, which loads some more
        sandbox.before(subject)
        require_done(_run(sandbox, subject.command(sandbox.at), how=("-c", LISTENING, str(told))))
        for path in map(Path, told.read_text().splitlines()):
            copy = kept / "fewpass" / path.parent.name / path.name
            copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copy(path, copy)
    return kept


def _kernels(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kernel"))


def _damaged(
    sandbox: Sandbox, name: str, keys: list[str], damage: Callable[[Path], object]
) -> Verdict:
    """The command names what is damaged, comes to the same bits, and leaves whole kernels."""
    subject, cache = SUBJECTS[name], sandbox.root / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    shutil.copytree(_kept(sandbox, name), cache)
    sandbox.before(subject)
    damage(cache)
    bad = [what for path in _folders(cache) for what in damaged_kernels(path)]
    ended = _run(sandbox, subject.command(sandbox.at), cache)
    if wrong := fault_of(ended):
        return broken(wrong)
    said = ended.commands[0]
    if said.status != 0:
        return broken(f"not healed, exit {said.status}: {said.err.strip()[-400:]}")
    if bad and not any(kernel in said.err for kernel in bad):
        return broken(f"not named: {said.err.strip()[-400:]}")
    left = [what for path in _folders(cache) for what in damaged_kernels(path)]
    loaded = {path.name for path in _kernels(_kept(sandbox, name))}
    if left := [what for what in left if what in loaded]:
        return broken(f"not replaced: {left}")
    needed = [key for key in keys if not any(one in key for one in NOT_NEEDED)]
    if missing := [key for key in needed if not (cache / key).exists()]:
        return broken(f"not compiled anew: {missing}")
    return same(subject, sandbox.at, said, sandbox.quiet(subject).bits)


def _folders(cache: Path) -> list[Path]:
    return sorted({path.parent for path in _kernels(cache)})


def _run(
    sandbox: Sandbox,
    command: list[str],
    cache: Path | None = None,
    how: tuple[str, ...] = ("-m", "fewpass"),
) -> Ended:
    """Run a command in a process that begins with nothing but a cache, or everybody's."""
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    if cache:
        environment["XDG_CACHE_HOME"] = str(cache)
    began, timed_out = time.perf_counter(), False
    process = subprocess.Popen(
        [sys.executable, *how, *command], env=environment, cwd=sandbox.root,
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        (out, err), timed_out = process.communicate(), True
    said = Said(process.returncode, out, err)
    seconds = time.perf_counter() - began
    return Ended(process.returncode, [said], 0, [], seconds, 0, timed_out)
