"""Kernels compiled on this machine, on disk: of these versions and of others."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class CompiledKernels(NamedTuple):
    """Kernels on disk, as `fewpass check --json` tells."""

    folder: str
    compiled_for: str  # a level of processors, or this one
    packaged: int  # that the package has for it
    kernels: int  # of these versions of Python, numba and NumPy
    n_bytes: int
    damaged: dict[str, str]  # files that cannot be used, and why
    of_others: int  # for other versions or processors
    bytes_of_others: int


def compiled_kernels() -> CompiledKernels:
    """Look at the folders of compiled kernels; nothing is compiled or removed.

    Raises
    ------
    PermissionError
        When kernels can be kept nowhere.
    """
    from fewpass.solvers.kernels.kernel_files import (  # noqa: PLC0415 - loads LLVM
        PACKAGED,
        SUFFIX,
        cache_folder,
        damaged_kernels,
    )
    from fewpass.solvers.kernels.levels import compiled_for  # noqa: PLC0415 - with it

    ours, packaged = cache_folder(), PACKAGED / compiled_for()[1]
    sizes: dict[Path, list[int]] = {ours: []}
    for path in ours.parent.glob(f"*/*{SUFFIX}"):
        sizes.setdefault(path.parent, []).append(path.stat().st_size)
    own = sizes.pop(ours)
    return CompiledKernels(
        str(ours.parent),
        packaged.name,
        len([*packaged.glob(f"*{SUFFIX}")]),
        len(own),
        sum(own),
        damaged_kernels(packaged) | damaged_kernels(ours),
        sum(map(len, sizes.values())),
        sum(map(sum, sizes.values())),
    )
