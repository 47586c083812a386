# SPDX-License-Identifier: Apache-2.0
"""Damage and retrains from the first flit on: neither end may lose the other's INIT.Param."""

import pytest

from cocotbext.cxl.link.partner import WireFlit
from cocotbext.cxl.link.retry import Lrsm
from cocotbext.cxl.link.test_link import Wire, clean, make


def comes_up(wire: Wire) -> None:
    """Check that credits flow both ways, no error is reported, and both ends become idle."""
    both = wire.host, wire.stub.link
    wire.run(lambda: all(end.credits.plain and end.credits.data for end in both), 9000)
    for _ in range(200):
        wire.step()
    assert clean(wire), (wire.host.issues, wire.stub.link.issues)
    assert [end.retry.lrsm for end in both] == [Lrsm.NORMAL] * 2


class Damaged(Wire):
    """Wire that damages the first flits to the host, to the device or to both."""

    ends = ""
    first = 0

    def _damaged(self, flit: WireFlit, end: str) -> WireFlit:
        bad = end in self.ends and self.clocks <= self.first
        return flit[0], flit[1] ^ bad << 200

    def _to_host(self, flit: WireFlit) -> None:
        super()._to_host(self._damaged(flit, "h"))

    def _to_device(self, flit: WireFlit) -> None:
        super()._to_device(self._damaged(flit, "d"))


@pytest.mark.parametrize("ends", ["h", "d", "hd"])
@pytest.mark.parametrize("first", range(30))
def test_first_flits_are_damaged(ends: str, first: int) -> None:
    plain = make(first, retry=True)
    wire = Damaged(plain.host, plain.stub)
    wire.ends, wire.first = ends, first
    comes_up(wire)


@pytest.mark.parametrize("ends", ["", "h", "d"])
@pytest.mark.parametrize("at", range(1, 24))
def test_retrain_among_the_first_flits(ends: str, at: int) -> None:
    plain = make(at, retry=True)
    wire = Damaged(plain.host, plain.stub)
    wire.ends, wire.first = ends, at
    for _ in range(at):
        wire.step()
    wire.set_phy(False)
    for _ in range(at % 3):
        wire.step()
    wire.set_phy(True)
    comes_up(wire)


def test_first_training_is_no_retrain() -> None:
    wire = make(retry=True)
    wire.set_phy(False)
    for _ in range(50):
        wire.step()
    wire.set_phy(True)
    comes_up(wire)
    assert not wire.host.counters["phy_reinit"]
    assert not wire.stub.link.counters["phy_reinit"]
