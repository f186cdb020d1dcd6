"""Buckets: the 256 parts that task rows are spread over by hash."""

from __future__ import annotations

from zlib import crc32

BUCKETS = 256


def bucket_of(name: str) -> int:
    """The bucket of a row, from its key, or from its decimal id if it has no key."""
    return crc32(name.encode()) >> 24
