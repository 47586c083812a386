# SPDX-License-Identifier: Apache-2.0
"""Tests of the memory model: byte enables, poison, and bytes of undetermined value."""

from hypothesis import given
from hypothesis import strategies as st

from models.memory import UNKNOWN_LINE, ZERO_LINE, Memory, MemoryLine

ONE = b"\x11" * 64
TWO = b"\x22" * 64


def test_partial_write_merges_and_keeps_poison() -> None:
    memory = Memory()
    memory.write(1, ONE, None, True)
    memory.write(1, TWO, 0b11, False)
    assert memory.load(1) == MemoryLine(TWO[:2] + ONE[2:], True)
    memory.write(2, TWO, 0b11, True)
    assert memory.load(2) == MemoryLine(TWO[:2] + ZERO_LINE[2:], True)


def test_forgotten_lines_become_known_as_they_are_written() -> None:
    memory = Memory()
    memory.write(3, ONE, None, False)
    memory.forget(2, 4)
    assert [memory.load(i) == UNKNOWN_LINE for i in range(1, 7)] == [False, *[True] * 4, False]
    memory.write(3, TWO, 0b101, False)
    entry = memory.load(3)
    assert entry.known == 0b101
    assert not entry.poison_known
    assert entry.data[0] == 0x22
    memory.write(3, TWO, 0b010, True)
    assert memory.load(3).known == 0b111
    assert memory.load(3).poison_known
    memory.write(3, ONE, None, False)
    assert memory.load(3) == MemoryLine(ONE)
    memory.forget(3, 1)
    assert memory.load(3) == UNKNOWN_LINE
    memory.forget(3, 0)


ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=12)


@given(ranges)
def test_forgotten_ranges_merge(forgotten: list[tuple[int, int]]) -> None:
    memory = Memory()
    want: set[int] = set()
    for start, count in forgotten:
        memory.forget(start, count)
        want |= set(range(start, start + count))
    assert {i for i in range(80) if memory.load(i) == UNKNOWN_LINE} == want
