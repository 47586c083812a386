# SPDX-License-Identifier: Apache-2.0
"""Negative twins of the AXI4 rules, and tests of the store; no simulator is used."""

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from verif.axi import AXI4
from verif.mem.memory_agent import AxiRules, MemAgent, MemMonitor
from verif.mem.memory_config import FULL_STROBE


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
    assert [(b.write, b.line, b.data, b.strobe) for b in rules.beats] == [
        (True, 5, 123, FULL_STROBE),
        (False, 5, 123, 0),
        (False, 6, 0, 0),
    ]


@pytest.mark.parametrize("channel", ["aw", "w", "b", "ar", "r"])
@pytest.mark.parametrize(("valid", "ready"), [(False, True), (True, False), (False, False)])
def test_without_valid_and_ready_nothing_is_transferred(
    channel: str, valid: bool, ready: bool
) -> None:
    rules = _rules()
    payload = {"w": (1, 1, 1, 0), "b": (0, 0), "r": (0, 0, 0, 1, 0)}.get(channel, (0, 0, 0, 6, 1))
    getattr(rules, channel)(1, valid, ready, payload)
    assert (rules.errors, list(rules.beats)) == ([], [])
    assert [*rules._aw, *rules._w, *rules._await_b, *rules._await_r] == []


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


def test_last_in_the_wrong_place() -> None:
    rules = _rules()
    _good_write(rules, last=0)
    assert "WLAST=0 at beat 1 of 1" in rules.errors[0]
    for beats, lasts, text in (
        (1, [1], ""),
        (2, [0, 1], ""),
        (2, [1, 1], "RLAST=1 at beat 1 of 2"),
        (2, [0, 0], "RLAST=0 at beat 2 of 2"),
    ):
        rules = _rules()
        rules.ar(1, True, True, (1, 0, beats - 1, 6, 1))
        for last in lasts:
            rules.r(2, True, True, (1, 0, 0, last, 0))
        assert text in " ".join(rules.errors)
        assert bool(rules.errors) == bool(text)


def test_strobes_of_64_bits() -> None:
    for strobe, wrong in ((0, False), (FULL_STROBE, False), (FULL_STROBE + 1, True)):
        rules = _rules()
        rules.w(1, True, True, (0, strobe, 1, 0))
        assert bool(rules.errors) == wrong
        assert not wrong or "is wider than 64 bits" in rules.errors[0]


def test_responses_without_request() -> None:
    rules = _rules()
    rules.b(1, True, True, (0, 0))
    rules.r(1, True, True, (0, 0, 0, 1, 0))
    assert len(rules.errors) == 2
    for cycle in range(2, 40):
        rules.b(cycle, True, True, (0, 0))
    assert len(rules.errors) == 20, "more are not kept"


def test_unfinished_and_stuck() -> None:
    rules = _rules()
    rules.ar(1, True, True, (0, 0, 0, 6, 1))
    rules.stuck(200)
    rules.finish(201)
    assert "stuck" in rules.errors[0]
    assert "unfinished" in rules.errors[1]
    for cycle, texts in ((101, 0), (102, 2)):  # after more than 100 cycles
        rules = _rules()
        rules.aw(1, True, True, (2, 64 * 5, 0, 6, 1))
        rules.ar(1, True, True, (2, 64 * 6, 0, 6, 1))
        rules.stuck(cycle)
        assert len(rules.errors) == texts
    assert "read of line 0x6 stuck" in rules.errors[0]
    assert "write of line 0x5 has no data" in rules.errors[1]


NUMBERS = count()
CHANNELS = {
    "AW": "awid awaddr awlen awsize awburst awready",
    "W": "wdata wstrb wlast wuser wready",
    "AR": "arid araddr arlen arsize arburst arready",
    "B": "bid bresp bready",
    "R": "rid rdata rresp rlast ruser rready",
}


def _monitor(**levels: Any) -> MemMonitor:
    """Return a monitor of a port with these levels; other levels are 0."""
    monitor = MemMonitor(f"monitor_{next(NUMBERS)}", None)
    monitor.build_phase()
    pins = {name: SimpleNamespace(value=levels.get(name, "0")) for name in AXI4.split()}
    monitor.pins, monitor.rules = SimpleNamespace(**pins), _rules()
    monitor.start_of_simulation_phase()
    return monitor


def _unknown(**levels: str) -> str:
    """Return the findings about unknown levels in a cycle of the port."""
    monitor = _monitor(**levels)
    monitor._step()
    return " ".join(error for error in monitor.rules.errors if "X or Z" in error)


@pytest.mark.parametrize("unknown", "XZ")
@pytest.mark.parametrize(
    ("channel", "name"), [(one, name) for one, names in CHANNELS.items() for name in names.split()]
)
def test_an_unknown_level_of_a_valid_transfer(channel: str, name: str, unknown: str) -> None:
    valid, ready = f"{channel.lower()}valid", f"{channel.lower()}ready"
    told = "BREADY/RREADY" if channel in "BR" else channel
    assert told in _unknown(**{valid: "1", ready: "1", name: unknown})
    assert _unknown(**{name: unknown}) == "", "without VALID the level does not count"
    assert told in _unknown(**{valid: unknown})


def test_the_monitor_looks_for_stuck_bursts_and_the_agent_for_unfinished_ones() -> None:
    agent = MemAgent(f"agent_{next(NUMBERS)}", None)
    agent.monitor = monitor = _monitor()
    agent.rules = monitor.rules
    assert agent.finish() == []
    monitor.rules.ar(1, True, True, (1, 64 * 5, 0, 6, 1))
    for _ in range(1023):
        assert monitor._step(), "a burst is outstanding"
    assert monitor.rules.errors == []
    monitor._step()
    (stuck,) = monitor.rules.errors
    assert "cycle 1024: read of line 0x5 stuck" in stuck
    assert "cycle 1024: 1 transaction(s) unfinished" in agent.finish()[1]


def test_a_withdrawn_request_is_flagged() -> None:
    monitor = _monitor(arvalid="1", arsize="6", arburst="1")
    monitor._step()
    monitor.pins.arvalid.value = "0"
    monitor._step()
    assert "cycle 2" in monitor.rules.errors[0]
    assert "AR" in monitor.rules.errors[0]
