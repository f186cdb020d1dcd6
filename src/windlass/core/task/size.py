"""Sizes of memory: "512MB" or "2GiB", as whole bytes."""

from __future__ import annotations

import re

from windlass.errors import BadDeclaration

UNITS = {
    "KB": 1_000,
    "MB": 1_000_000,
    "GB": 1_000_000_000,
    "TB": 1_000_000_000_000,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_NAMES = {name.lower(): name for name in UNITS}


def parse_size(given: object, *, what: str, least: int = 1) -> int:
    """Bytes in `given`. `what` names the option in the error."""
    if not isinstance(given, str):
        raise BadDeclaration(
            f'{what}={given!r} is {type(given).__name__}; give a string such as "512MB"'
        )
    found = _SIZE.fullmatch(given.strip())
    unit = None if found is None else _NAMES.get(found[2].lower())
    if found is None or unit is None:
        raise BadDeclaration(f'{what}: cannot read {given!r}; write it as "512MB", "2GB" or "1GiB"')
    size = round(float(found[1]) * UNITS[unit])
    if size < least:
        raise BadDeclaration(f"{what}: {given!r} is too little; give at least {format_size(least)}")
    if size >= 1 << 62:
        raise BadDeclaration(f"{what}: {given!r} is more memory than there is")
    return size


def format_size(size: int) -> str:
    """A size for people, in the largest unit that keeps it exact enough."""
    for name in ("TB", "GB", "MB", "KB"):
        if size >= UNITS[name]:
            return f"{size / UNITS[name]:.4g}{name}"
    return f"{size}B"
