"""Kernels on disk: what is not as it was written is found before it runs, and compiled anew."""

import errno
import itertools
import logging
import os
import random
import shutil

import pytest
from numba.core.dispatcher import Dispatcher

from fewpass.solvers.kernels import kernel_files, loading
from fewpass.solvers.kernels.dispatch import Kernel
from fewpass.solvers.kernels.kernel_files import (
    DamagedKernel,
    cache_folder,
    damaged_kernels,
    read_kernel,
    write_kernel,
)

CONTENT = bytes(range(256)) * 3


def third(x):
    return x / 3.0


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A folder with two kernels, for numbers and for whole numbers."""
    folder = tmp_path_factory.mktemp("kernels")
    made = fresh(folder)
    assert made(6.0) == made(6) == 2.0
    return folder


@pytest.fixture
def folder(compiled, tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "_warned", set())
    return shutil.copytree(compiled, tmp_path / "kernels")


def fresh(folder):
    """The kernel as another process has it: nothing is loaded yet."""
    made = Kernel(third)
    made.files = KernelsIn(third, folder)
    return made


class KernelsIn(loading.KernelsOnDisk):
    def __init__(self, function, folder):
        super().__init__(function)
        self._at = folder

    @property
    def folder(self):
        return self._at


def counts(made):
    """How many kinds of arguments have code from disk, and how many have compiled code."""
    compiled = [isinstance(run, Dispatcher) for run in made._code.values()]
    return compiled.count(False), compiled.count(True)


def test_every_bit_every_length_and_the_name_count(tmp_path):
    path = tmp_path / "a.kernel"
    write_kernel(path, CONTENT)
    whole = path.read_bytes()
    assert read_kernel(path) == CONTENT
    (tmp_path / "b.kernel").write_bytes(whole)
    with pytest.raises(DamagedKernel, match="checksum"):
        read_kernel(tmp_path / "b.kernel")
    for at, bit in itertools.product(range(len(whole)), range(8)):
        changed = bytearray(whole)
        changed[at] ^= 1 << bit
        path.write_bytes(changed)
        with pytest.raises(DamagedKernel):
            read_kernel(path)
    for other in (*(whole[:length] for length in range(len(whole))), whole + b"\0"):
        path.write_bytes(other)
        with pytest.raises(DamagedKernel, match=r"cut short|in place of"):
            read_kernel(path)


def in_place_of(path, what):
    whole = path.read_bytes()
    path.unlink()
    if what == "a bit":
        changed = bytearray(whole)
        changed[random.Random(0).randrange(len(whole) // 2, len(whole))] ^= 4
        path.write_bytes(changed)
    elif what == "open to all":
        path.write_bytes(whole)
        path.chmod(0o666)
    elif what == "a pipe":
        os.mkfifo(path)
    elif what == "no machine code":
        write_kernel(path, b"\x80\x04cnowhere\nnothing\n.")
    else:
        path.mkdir()


@pytest.mark.parametrize(
    "what",
    ["a bit", "open to all", "a pipe", "no machine code", "a folder"],
)
def test_what_is_damaged_is_named_compiled_and_replaced(what, folder, caplog):
    first, other = sorted(folder.glob("*.kernel"))
    in_place_of(first, what)
    made = fresh(folder)
    with caplog.at_level(logging.WARNING):
        assert made(6.0) == made(6) == 2.0
    assert counts(made) == (1, 1)
    named = caplog.records[0].getMessage()
    assert first.name in named
    assert other.name not in named
    assert str(folder) in named
    assert "compiled anew" in named
    if what != "a folder":  # which might hold something
        assert len(caplog.records) == 1
        assert counts_of_next(folder) == (2, 0)
        assert not damaged_kernels(folder)


def counts_of_next(folder):
    made = fresh(folder)
    assert made(6.0) == made(6) == 2.0
    return counts(made)


def test_a_whole_folder_is_told_of_once(folder, caplog):
    for path in folder.glob("*.kernel"):
        path.write_bytes(b"")
    for k in range(3):
        (folder / f"z{k}.kernel").touch()
    made = fresh(folder)
    assert made(6.0) == made(6) == 2.0
    (record,) = caplog.records
    assert "cut short, to 0 bytes" in record.getMessage()
    assert "and 2 more" in record.getMessage()


def test_a_kernel_of_another_user_is_not_run(folder, monkeypatch):
    path = next(folder.glob("*.kernel"))
    monkeypatch.setattr(kernel_files.os, "getuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(DamagedKernel, match="another user owns it"):
        read_kernel(path)


def test_two_who_write_leave_whole_files(tmp_path, monkeypatch):
    """A file is whole before it gets its name, and the one from before stays until then."""
    path, seen = tmp_path / "a.kernel", []
    write_kernel(path, CONTENT)
    replace = os.replace

    def between(source, target):
        seen.append(read_kernel(path))
        other = tmp_path / "other" / path.name
        other.parent.mkdir()
        shutil.copy(source, other)
        assert read_kernel(other) == CONTENT[::-1]
        replace(source, target)

    monkeypatch.setattr(kernel_files.os, "replace", between)
    write_kernel(path, CONTENT[::-1])
    assert seen == [CONTENT]
    assert read_kernel(path) == CONTENT[::-1]


def test_where_nothing_can_be_written_kernels_are_compiled_and_that_is_said(
    folder, monkeypatch, caplog
):
    for path in folder.glob("*.kernel"):
        path.unlink()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kernel_files.os, "replace", full)
    made = fresh(folder)
    assert made(6.0) == made(6) == 2.0
    (record,) = caplog.records
    assert "No space left on device" in record.getMessage()
    assert "XDG_CACHE_HOME" in record.getMessage()
    assert {path.suffix for path in folder.iterdir()} <= {".lock"}


def test_a_folder_that_cannot_be_written_is_good_for_what_it_has(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(
        "fewpass.solvers.kernels.kernel_files.gettempdir", lambda: str(tmp_path / "temporary")
    )
    (tmp_path / "temporary").mkdir()
    made = cache_folder()
    writable = os.access
    monkeypatch.setattr(
        "fewpass.solvers.kernels.kernel_files.os.access",
        lambda path, how: path != made and writable(path, how),
    )
    assert cache_folder().is_relative_to(tmp_path / "temporary")
    write_kernel(made / "a.kernel", CONTENT)
    assert cache_folder() == made
