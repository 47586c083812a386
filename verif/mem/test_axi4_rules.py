# SPDX-License-Identifier: Apache-2.0
"""Negative twins of the AXI4 rules, and tests of the store; no simulator is used."""

from __future__ import annotations

import pytest

from verif.mem.axi4_rules import AxiRules
from verif.mem.memory_config import FULL_STROBE, Background
from verif.mem.store import MemStore


def _rules() -> AxiRules:
    return AxiRules(lines_log2=10, stuck_timeout=100)


def _good_write(rules: AxiRules, last: int = 1) -> None:
    rules.aw(1, True, True, (2, 64 * 5, 0, 6, 1))
    rules.w(1, True, True, (123, FULL_STROBE, last, 0))
    rules.b(4, True, True, (2, 0))


def test_legal_traffic_has_no_errors() -> None:
    rules = _rules()
    _good_write(rules)
    rules.ar(5, True, False, (1, 64 * 5, 1, 6, 1))
    rules.ar(6, True, True, (1, 64 * 5, 1, 6, 1))
    rules.r(9, True, True, (1, 123, 0, 0, 0))
    rules.r(10, True, True, (1, 0, 0, 1, 0))
    rules.finish(11)
    assert rules.errors == []
    assert [(b.write, b.line, b.data) for b in rules.beats] == [
        (True, 5, 123),
        (False, 5, 123),
        (False, 6, 0),
    ]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ((0, 64 * 63, 1, 6, 1), "4 KB"),
        ((0, 64 * 1023, 0, 5, 1), "SIZE"),
        ((0, 64 * 3, 0, 6, 0), "INCR"),
        ((0, 64 * 3 + 8, 0, 6, 1), "aligned"),
        ((0, 64 * 1024, 0, 6, 1), "leaves the memory"),
    ],
)
def test_bad_burst_is_flagged(payload: tuple[int, ...], text: str) -> None:
    for channel in ("aw", "ar"):
        rules = _rules()
        getattr(rules, channel)(1, True, True, payload)
        assert any(text in error for error in rules.errors)


def test_unstable_payload_and_dropped_valid() -> None:
    rules = _rules()
    rules.aw(1, True, False, (0, 0, 0, 6, 1))
    rules.aw(2, True, False, (1, 0, 0, 6, 1))
    rules.aw(3, False, False, ())
    assert "payload changed" in rules.errors[0]
    assert "fell" in rules.errors[1]


def test_wlast_in_the_wrong_place() -> None:
    rules = _rules()
    _good_write(rules, last=0)
    assert "WLAST" in rules.errors[0]


def test_responses_without_request() -> None:
    rules = _rules()
    rules.b(1, True, True, (0, 0))
    rules.r(1, True, True, (0, 0, 0, 1, 0))
    assert len(rules.errors) == 2


def test_unfinished_and_stuck() -> None:
    rules = _rules()
    rules.ar(1, True, True, (0, 0, 0, 6, 1))
    rules.stuck(200)
    rules.finish(201)
    assert "stuck" in rules.errors[0]
    assert "unfinished" in rules.errors[1]


def test_store_background_and_partial_write() -> None:
    for background in Background:
        store = MemStore(background, seed=7)
        before, poison = store.read(3)
        assert not poison
        assert store.read(3) == (before, False)
        store.write(3, 0xAA55, strobe=0b01, poison=True)
        assert store.read(3) == ((before & ~0xFF) | 0x55, True)
        store.write(3, 1, strobe=0b10)
        assert store.read(3)[1], "a clean partial write does not clear the poison"
        store.write(3, 9)
        assert store.read(3) == (9, False)
