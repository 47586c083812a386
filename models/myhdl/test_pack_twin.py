# SPDX-License-Identifier: Apache-2.0
"""Tests of the MyHDL twin of the packer against the decoder of the agent."""

from __future__ import annotations

import random

import pytest

from cocotbext.cxl.wire.flits import FlitHeader
from cocotbext.cxl.wire.messages import S2MNDR
from cocotbext.cxl.wire.unpack import S2MUnpacker
from models.myhdl.convert import Twin
from models.myhdl.stepper import Stepper
from models.myhdl.stimulus import Pack, Values

NAME = "nf_link_tx_pack"
NIGHTLY = pytest.mark.nightly("100,000 clocks in Python")


class Receiver:
    """Host that decodes the twin's flits and compares them with the messages that were put in."""

    def __init__(self, stepper: Stepper, seed: int) -> None:
        self.stepper = stepper
        self.traffic = Pack(random.Random(seed), {})
        self.decoder = S2MUnpacker()
        self.received = self.flits = 0
        stepper.inputs(NAME, {"rst_n": 0})

    def clock(self, values: Values) -> None:
        """Run one clock with these inputs and check the outputs."""
        out = self.stepper.inputs(NAME, values)
        assert out["drs_empty"] == (not self.traffic.taken)
        if out["flit_valid"] and values["flit_ready"]:
            self._receive(out, values)
        else:
            assert out["ndr_pop"] == out["drs_sent"] == 0
        self.traffic.answered(out)
        self.stepper.clock()

    def _receive(self, out: Values, values: Values) -> None:
        self.flits += 1
        report = self.decoder.feed(out["flit"])
        assert not report.issues
        assert report.adf == (not out["header"])
        assert bool(out["run"]) == (report.owed_after > 3)
        assert (report.plain, report.data) == (out["ndr_pop"], out["drs_sent"])
        assert report.plain <= values["ndr_credits"]
        assert report.data <= values["drs_credits"]
        if not report.adf:
            header = FlitHeader.decode(report.header)
            got = (header.ak, header.req_crd, header.rsp_crd, header.data_crd)
            assert got == (values["ak"], values["req_crd"], 0, values["data_crd"])
        if report.data:
            assert values["room_multi" if report.data > 1 else "room_drs"]
            assert report.data == 1 or values["multi_header"]
        plain = iter(list(self.traffic.ndrs))
        for message in report.messages:
            self.received += 1
            if isinstance(message, S2MNDR):
                assert message == next(plain)
            else:
                assert message == self.traffic.taken.popleft()


@pytest.mark.parametrize("clocks", [500, pytest.param(100_000, marks=NIGHTLY)])
def test_traffic(clocks: int) -> None:
    with Stepper([Twin(NAME)]) as stepper:
        host = Receiver(stepper, clocks)
        for _ in range(clocks):
            host.clock(host.traffic.draw())
        for _ in range(200):
            host.clock(host.traffic.inputs(0, 0, 1, False))
        assert host.traffic.offered is None
        assert not host.traffic.taken
        assert not host.traffic.ndrs
        assert host.received > clocks / 4


def test_rate() -> None:
    """Check that the twin sends 4 lines in 5 flits without multi-headers (controller §8)."""
    with Stepper([Twin(NAME)]) as stepper:
        values = {"rst_n": 1, "enable": 1, "room_drs": 1, "drs_credits": 512, "flit_ready": 1}
        stepper.inputs(NAME, {"rst_n": 0})
        stepper.inputs(NAME, {**values, "drs_valid": 1})
        lines = 0
        for clock in range(60):
            out = stepper.inputs(NAME, {})
            lines += out["drs_sent"] if clock >= 10 else 0
            stepper.clock()
        assert lines == 40
