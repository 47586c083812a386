# SPDX-License-Identifier: Apache-2.0
"""Drawn accesses of the memory content, and errors by line and by rate."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from verif.axi import Resp
from verif.mem.memory_config import FULL_STROBE, Background, MemBeat, MemConfig
from verif.mem.responder import MemResponder
from verif.mem.store import MemStore


@pytest.mark.parametrize("background", Background)
def test_drawn_accesses(background: Background) -> None:
    """Check a few lines, written whole and in part, with and without poison, byte by byte."""
    rng = Random(1)
    store, fresh = MemStore(background, 7), MemStore(background, 7)
    content = {line: bytearray(fresh.read(line)[0].to_bytes(64, "little")) for line in range(4)}
    marked: set[int] = set()
    for _ in range(300):
        line, poison = rng.randrange(4), rng.random() < 0.3
        strobe = rng.choice((FULL_STROBE, FULL_STROBE, 0, 1, 1 << 63, rng.getrandbits(64)))
        data = rng.randbytes(64)
        if rng.random() < 0.05:
            store.poison(line)
            marked.add(line)
        store.write(line, int.from_bytes(data, "little"), strobe, poison)
        for place in (place for place in range(64) if strobe >> place & 1):
            content[line][place] = data[place]
        if strobe == FULL_STROBE:
            marked.discard(line)
        if poison:
            marked.add(line)
        for one, whole in content.items():
            assert store.read(one) == (int.from_bytes(whole, "little"), one in marked)


def test_what_was_never_written() -> None:
    zeros, ones = MemStore(Background.ZEROS), MemStore(Background.ONES)
    assert zeros.read(3) == (0, False)
    assert ones.read(3) == ((1 << 512) - 1, False)
    drawn = [MemStore(seed=seed).read(line)[0] for seed in (0, 1, 2) for line in (0, 1, 2)]
    assert len({*drawn}) == 9
    assert all(abs(one.bit_count() - 256) < 100 for one in drawn)
    assert MemStore(seed=1).read(1)[0] == drawn[4]


def test_errors_by_line_and_by_rate() -> None:
    cfg = MemConfig(read_error_lines={3}, write_error_lines={5})
    draws = SimpleNamespace(random=lambda: 0.25)
    memory: Any = SimpleNamespace(cfg=cfg, rng=draws)
    fails, spoils = MemResponder.read_fails, MemResponder.write_fails
    assert [line for line in range(8) if fails(memory, line)] == [3]
    assert [line for line in range(8) if spoils(memory, range(line, line + 2))] == [4, 5]
    for rate, drawn in ((0.25, False), (0.26, True), (0.0, False)):
        cfg.read_error_rate = cfg.write_error_rate = rate
        assert fails(memory, 1) == spoils(memory, range(1)) == drawn
    memory.rng = None  # without a rate nothing is drawn, so that other draws stay as they are
    assert not fails(memory, 1)
    assert not spoils(memory, range(1))


def test_a_beat_with_an_error() -> None:
    for resp in Resp:
        beat = MemBeat(False, 0, 0, 0, 0, False, resp)
        assert beat.error == (resp in (Resp.SLVERR, Resp.DECERR))
