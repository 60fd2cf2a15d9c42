"""Kernels for the wheel: those of the warm-up, for all levels whose code this machine runs.

    python -m fewpass.pipeline.packaged_kernels FOLDER

FOLDER gets a folder for each level of `solvers/kernels/levels.py`.  What the user's cache has is
copied, so that only what changed is compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from fewpass.pipeline.compiling_ahead import warm_up


def package_kernels(folder: Path) -> None:
    """Put kernels for each level into a folder of its name, in a process that compiles for it."""
    from fewpass.solvers.kernels.levels import levels_here  # noqa: PLC0415 - loads LLVM

    for level in levels_here():
        of_level = {"NUMBA_CPU_NAME": level.name, "NUMBA_CPU_FEATURES": level.options}
        code = (
            f"from {__spec__.name} import copy_kernels; copy_kernels({str(folder / level.name)!r})"
        )
        command = [sys.executable, "-c", code]
        subprocess.run(command, env=os.environ | of_level, check=True)  # noqa: S603 - our own


def copy_kernels(folder: str) -> None:
    """Compile, and copy all files of kernels that the warm-up then loads."""
    files: set[str] = set()
    warm_up()
    warm_up(on_compiled=lambda done: files.update(done.files))
    Path(folder).mkdir(parents=True, exist_ok=True)
    for file in sorted(files):
        shutil.copyfile(file, Path(folder) / Path(file).name)
    sys.stdout.write(f"{len(files)} kernels for {Path(folder).name}\n")


if __name__ == "__main__":
    package_kernels(Path(sys.argv[1]))
