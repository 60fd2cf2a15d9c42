"""The cores of this process: those that it may run on, as far as it may use them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from fewpass.pipeline.memory import GROUPS, OWN_GROUPS, own_groups


def usable_cores() -> int:
    """Return how many cores this process may keep busy: at least one."""
    allowed = len(os.sched_getaffinity(0))
    return max(1, int(min([allowed, *_group_shares()])))


def _group_shares(root: Path = GROUPS, groups: Path = OWN_GROUPS) -> Iterator[float]:
    """Yield the cores that its control groups may use, where they are limited."""
    for group in own_groups("cpu", root, groups):
        texts = [file.read_text() for file in _quota_files(group) if file.exists()]
        numbers = " ".join(texts).split()
        if len(numbers) == 2 and numbers[0].isdigit():  # neither "max" nor -1
            yield int(numbers[0]) / int(numbers[1])


def _quota_files(group: Path) -> list[Path]:
    """Return the files of a group with its microseconds and those of a period."""
    first = [group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us"]
    return first if first[0].exists() else [group / "cpu.max"]
