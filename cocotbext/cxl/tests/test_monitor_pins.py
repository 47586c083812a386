# SPDX-License-Identifier: Apache-2.0
"""Negative twins of pin rules: levels given to monitor and device by hand, without a simulator."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from cocotbext.cxl import device, monitor
from cocotbext.cxl.bus import CxlMemBus
from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.host import CxlMemHost
from cocotbext.cxl.link.partner import HostLink

WIDTHS = {"protocol_id": 16, "flit": 528}
IDLE = {"m2s_valid": "0", "s2m_valid": "0", "s2m_ready": "1"}


class Clock:
    """Awaitable in place of a clock edge: the test resumes the monitor by hand."""

    def __await__(self) -> Generator[None]:
        yield


def link_pins() -> dict[str, Any]:
    """Return pins of a link at level 0, with the physical layer up."""
    names = [f"{way}_{name}" for way in ("m2s", "s2m") for name in ("valid", *WIDTHS)]
    pins = {name: SimpleNamespace(value="0") for name in (*names, "s2m_ready", "phy_up")}
    pins["phy_up"].value = "1"
    return pins


class Pins:
    """Monitor on pins whose levels the test sets; `clock` gives one clock of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **cfg: Any) -> None:
        monkeypatch.setattr(monitor, "RisingEdge", lambda _clock: Clock())
        self.pins = link_pins()
        self.monitor = monitor.CxlMemMonitor(
            CxlMemBus(**self.pins), None, cfg=CxlConfig(**cfg), records=False, start=False
        )
        self.monitor._in_reset = False
        self.run = self.monitor._run()
        self.run.send(None)

    def clock(self, **levels: str) -> list[str]:
        """Give a clock with levels of pins, the others idle; return the findings about pins."""
        before = len(self.monitor.errors)
        for name, level in (IDLE | levels).items():
            self.pins[name].value = level
        self.run.send(None)
        found = self.monitor.errors[before:]
        return [one for one in found if "pins" in one]


def flit(way: str, rng: Random, **more: str) -> dict[str, str]:
    """Return levels of a valid flit with drawn bits, and other levels."""
    bits = {f"{way}_{name}": format(rng.getrandbits(w), f"0{w}b") for name, w in WIDTHS.items()}
    return {f"{way}_valid": "1", **bits, **more}


@pytest.mark.parametrize("unknown", ["X", "Z"])
@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("way", ["m2s", "s2m"])
def test_an_unknown_level_of_a_valid_flit(
    way: str, name: str, unknown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins, rng = Pins(monkeypatch), Random(f"{way} {name} {unknown}")
    levels = flit(way, rng)
    assert pins.clock(**levels) == []
    at, bits = rng.randrange(WIDTHS[name]), levels[f"{way}_{name}"]
    levels[f"{way}_{name}"] = bits[:at] + unknown + bits[at + 1 :]
    (found,) = pins.clock(**levels)
    assert "X or Z on the pins of a valid flit" in found
    assert levels[f"{way}_{name}"] in found
    assert pins.clock(**levels | {f"{way}_valid": "0"}) == []
    (found,) = pins.clock(**{f"{way}_valid": unknown})
    assert f"{way}_valid is X or Z: {unknown}" in found


def test_a_flit_that_waits_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(7)
    one, other = flit("s2m", rng, s2m_ready="0"), flit("s2m", rng, s2m_ready="0")
    taken = {"s2m_ready": "1"}
    for levels, text in (
        ([one, one, one | taken, other | taken], ""),
        ([one | taken, other | taken], ""),
        ([one, other], "the s2m flit changed while s2m_ready was low"),
        ([one, IDLE], "s2m_valid fell while s2m_ready was low"),
        ([one, one | taken, IDLE], ""),
    ):
        pins = Pins(monkeypatch)
        assert [found for one_clock in levels[:-1] for found in pins.clock(**one_clock)] == []
        found = pins.clock(**levels[-1])
        assert len(found) == bool(text)
        assert all(text in line for line in found)
        assert pins.clock(**levels[-1] | taken) == [], "it is reported once"
    pins = Pins(monkeypatch, check_stable=False)
    assert pins.clock(**one) == pins.clock(**other) == pins.clock() == []
    pins = Pins(monkeypatch)
    pins.clock(**one)
    pins.monitor._reset_entered()
    assert pins.clock(**other) == [], "in reset nothing is sampled"
    pins.monitor._in_reset = False
    assert pins.clock(**other) == [], "a reset ends what waited"


def test_an_unknown_valid_at_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the device reports an unknown m2s_valid once, and again after a known level."""
    monkeypatch.setattr(device, "RisingEdge", lambda _clock: Clock())
    pins = link_pins()
    end = device.CxlMemDevice(CxlMemBus(**pins), None, start=False)
    end._in_reset = False
    run, counts = end._run(), []
    run.send(None)
    for level in "0XX0ZX0":
        pins["m2s_valid"].value = level
        run.send(None)
        counts.append(len(end.errors))
    assert counts == [0, 1, 1, 1, 2, 3, 3]
    assert "m2s_valid is X or Z: Z" in end.errors[1]


def test_the_host_tells_an_abort_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for looks in range(3):
        host = CxlMemHost(CxlMemBus(**link_pins()), None, start=False)
        assert host.finish() == []
        monkeypatch.setattr(HostLink, "failed", property(lambda _link: True))
        for _ in range(looks):
            host._look()
        (found,) = host.finish()
        assert "the link is in ABORT" in found
        assert ("has not acknowledged any retry" in found) == (looks > 0)
        monkeypatch.undo()
