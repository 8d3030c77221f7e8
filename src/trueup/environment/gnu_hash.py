"""The hash table by which the loader finds a symbol: a lookup reads a few words, not the whole symbol table.

Layout: https://flapenguin.me/elf-dt-gnu-hash
"""

from __future__ import annotations

import struct
from pathlib import Path

from trueup.environment.byte_ranges import Unreadable, integers, read_bytes

SYMBOL = struct.Struct("<IBBHQQ")
LONGEST_CHAIN = 4096


class GnuHash:
    """Of one file."""

    def __init__(self, path: Path, table_at: int, symbols_at: int, strings: bytes) -> None:
        """`table_at`, `symbols_at`: offsets of the hash table and of the symbol table in the file."""
        self._strings = strings
        buckets, self._first, words, self._shift = struct.unpack("<IIII", read_bytes(path, table_at, 16))
        if not buckets or not words:
            raise Unreadable("its hash table is damaged")
        buckets_at = table_at + 16 + 8 * words
        chains_at = buckets_at + 4 * buckets
        self._bloom = integers("Q", read_bytes(path, table_at + 16, 8 * words))
        self._buckets = integers("I", read_bytes(path, buckets_at, 4 * buckets))
        self._chains, self._symbols = integers("I", b""), b""
        self.end = 0
        """One more than the highest index of a symbol in the table; 0 for an empty table."""
        before = max(self._buckets) - self._first
        if before >= 0:
            # The chain of the highest bucket is the last one; how far it goes is found by walking it.
            last_chain = read_bytes(path, chains_at + 4 * before, 4 * LONGEST_CHAIN, short=True)
            last = integers("I", last_chain[: len(last_chain) & ~3])
            length = next((number for number, each in enumerate(last, 1) if each & 1), None)
            if length is None:
                raise Unreadable("its hash table is damaged")
            self._chains = integers("I", read_bytes(path, chains_at, 4 * (before + length)))
            self.end = self._first + before + length
            self._symbols = read_bytes(path, symbols_at, SYMBOL.size * self.end)

    def finds(self, name: bytes, hashed: int) -> bool:
        word = self._bloom[(hashed >> 6) % len(self._bloom)]
        if not (word >> (hashed & 63)) & (word >> ((hashed >> self._shift) & 63)) & 1:
            return False
        index = self._buckets[hashed % len(self._buckets)]
        while self._first <= index < self.end:
            chain = self._chains[index - self._first]
            if chain | 1 == hashed | 1:
                offset, _, _, section, _, _ = SYMBOL.unpack_from(self._symbols, SYMBOL.size * index)
                if section and self._strings.startswith(name + b"\0", offset):
                    return True
            if chain & 1:
                return False
            index += 1
        return False


def gnu_hash(name: bytes) -> int:
    value = 5381
    for byte in name:
        value = value * 33 + byte & 0xFFFFFFFF
    return value
