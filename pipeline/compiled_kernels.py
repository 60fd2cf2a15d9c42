"""What is compiled on this machine: kernels on disk, of this version and of others."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

PIPELINE = Path(__file__).parent
_MAKES_KERNELS = "from fewpass.solvers.kernels.dispatch import"


class CompiledKernels(NamedTuple):
    """Kernels on disk, as `fewpass check --json` tells."""

    folder: str
    kernels: int  # of this version
    n_bytes: int
    by_package: dict[str, int]  # where their sources are
    damaged: dict[str, str]  # files that cannot be used, and why
    of_others: int  # kernels of other versions, of fewpass or its libraries
    bytes_of_others: int


def compiled_kernels() -> CompiledKernels:
    """Look at the folder of compiled kernels; nothing is compiled or removed.

    Raises
    ------
    PermissionError
        When kernels can be kept nowhere.
    """
    from fewpass.solvers.kernels.dispatch import SOLVERS, cache_folder, sources_digest  # noqa: PLC0415 - numba
    from fewpass.solvers.kernels.kernel_files import SUFFIX, damaged_kernels  # noqa: PLC0415 - with it

    top = cache_folder().parent
    packages = {sources_digest(package): package for package in (SOLVERS, *_packages())}
    sizes: dict[str, list[int]] = {}
    for path in top.glob(f"*/*{SUFFIX}"):
        sizes.setdefault(path.parent.name, []).append(path.stat().st_size)
    ours = {name: sizes.pop(name) for name in packages if name in sizes}
    return CompiledKernels(
        str(top),
        sum(map(len, ours.values())),
        sum(map(sum, ours.values())),
        {_called(packages[name]): len(files) for name, files in ours.items()},
        {file: why for name in ours for file, why in damaged_kernels(top / name).items()},
        sum(map(len, sizes.values())),
        sum(map(sum, sizes.values())),
    )


def _packages() -> list[Path]:
    """Return the folders of this package that have kernels of their own."""
    makers = (path for path in PIPELINE.rglob("*.py") if _MAKES_KERNELS in path.read_text())
    return sorted({path.parent for path in makers})


def _called(package: Path) -> str:
    return str(package.relative_to(PIPELINE.parent))
