# SPDX-License-Identifier: Apache-2.0
"""INIT_BUSY follows the writes of the initialiser; a write without need is flagged."""

from __future__ import annotations

import dataclasses
import tracemalloc

from models.line_packing import Mode
from verif.scoreboard.memory_port import Initialiser
from verif.scoreboard.ranges import Span
from verif.scoreboard.test_scoreboard import BINARY, FP32


def test_busy_until_the_last_line() -> None:
    for config in (BINARY, FP32):
        model = Initialiser()
        assert model.busy() == Span(0, 0)
        model.committed(0, None, config, 8)
        for index in range(config.lines):
            assert model.busy() == Span(1, 1)
            assert model.write(0, index, False) is None
        assert model.busy() == Span(0, 0)
        assert "without need" in str(model.write(0, 0, False))


def test_an_area_that_the_region_had_may_do_without() -> None:
    model = Initialiser()
    model.committed(0, None, BINARY, 8)
    for index in range(BINARY.lines):
        model.write(0, index, False)
    model.committed(0, BINARY, BINARY, 8)
    assert model.busy() == Span(0, 1)
    other = dataclasses.replace(BINARY, state_base=0x20000)
    model.committed(0, BINARY, other, 8)
    assert model.busy() == Span(1, 1)


def test_a_repeated_commit_does_not_end_it() -> None:
    model = Initialiser()
    model.committed(0, None, BINARY, 8)
    model.write(0, 0, False)
    model.committed(0, BINARY, BINARY, 8)
    assert model.busy() == Span(1, 1)


def test_a_large_area_costs_what_is_written() -> None:
    model = Initialiser()
    tracemalloc.start()
    model.committed(0, None, dataclasses.replace(BINARY, lines_log2=30), 8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000, "bytes"
    assert model.write(0, (1 << 30) - 1, False) is None
    assert "without need" in str(model.write(0, (1 << 30) - 1, False))
    assert "without need" in str(model.write(0, 1 << 30, False))
    assert model.busy() == Span(1, 1)


def test_identity_needs_none() -> None:
    model = Initialiser()
    model.committed(0, None, BINARY, 8)
    plain = dataclasses.replace(BINARY, mode=Mode.IDENTITY)
    model.committed(0, BINARY, plain, 8)
    assert model.busy() == Span(0, 0)
    assert "without need" in str(model.write(0, 0, False))


def test_a_write_before_the_commit_is_settled() -> None:
    model = Initialiser()
    assert model.write(0, 0, True) is None
    model.committed(0, None, BINARY, 8)
    assert model.busy() == Span(0, 1)
