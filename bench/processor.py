"""Processor time of processes and all their children, as Linux counts it in `/proc`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
# Fields after the name: the parent; user and system time, own and of children that have ended.
PARENT = 1
TIMES = slice(11, 15)


def seconds(roots: Iterable[int]) -> float:
    """What these processes and all their descendants have used so far."""
    found = dict(_processes())
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid, fields in found.items():
        children[int(fields[PARENT])].append(pid)
    total, left = 0, list(roots)
    while left:
        pid = left.pop()
        left += children[pid]
        total += sum(map(int, found[pid][TIMES])) if pid in found else 0
    return total / TICKS


def _processes() -> Iterable[tuple[int, list[str]]]:
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                text = (path / "stat").read_text()
            except OSError:
                # It has just ended.
                continue
            yield int(path.name), text.rpartition(")")[2].split()
