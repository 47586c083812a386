# SPDX-License-Identifier: Apache-2.0
"""Hand-written modules and their MyHDL twins with the same random inputs, compared every clock."""

import os
import random
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge, Timer

from models.myhdl.convert import FOLDER, Twin
from models.myhdl.stepper import Stepper
from models.myhdl.stimulus import STIMULI, Values
from verif.env.config import scale
from verif.parameters import build_parameters
from verif.tests.packed_structs import pack, unpack

STEPPED = 100
"""Number of clocks of `stepped`; element by element in Python, one takes some 10 ms."""
CONVERTED = 100
"""Number of clocks of `converted`; NF_SCALE = 10000 makes 1,000,000."""
PARAMETERS = build_parameters()
TWINS = Path(os.environ.get("NF_TWINS", FOLDER))
"""Folder of the stepped twins: that of a mutant, if NF_TWINS names one."""


class Pair:
    """Hand-written module, its MyHDL twin, and their common stimulus."""

    def __init__(self, dut: Any, twin: Twin, rng: random.Random) -> None:
        self.name = twin.name
        self.ins, self.outs = (
            tuple(ports.items()) for ports in (twin.ports.inputs, twin.ports.outputs)
        )
        self.stimulus = STIMULI[twin.name](rng, PARAMETERS)
        self.inputs: Values = dict.fromkeys(twin.ports.inputs, 0)
        self.clocks = 0  # since reset
        self._in = getattr(dut, f"{twin.name}_in")
        self._out = getattr(dut, f"{twin.name}_out")
        self._twin = getattr(dut, f"{twin.name}_twin")
        self.drive(self.inputs)

    def drive(self, inputs: Values) -> None:
        """Drive these inputs into the hand-written module and the converted twin."""
        self.inputs = inputs
        self._in.value = pack(self.ins, **inputs)

    @property
    def meant(self) -> bool:
        """True if the outputs are valid now and must be compared."""
        return self.stimulus.meant(self.inputs)

    def outputs(self) -> Values:
        """Return the outputs of the hand-written module by name."""
        return unpack(self.outs, int(self._out.value))

    def converted(self) -> Values:
        """Return the outputs of the converted twin."""
        return unpack(self.outs, int(self._twin.value))

    def compare(self, got: Values, want: Values, what: str) -> None:
        """Raise AssertionError, with port and inputs, if an output of `got` differs from `want`.

        `what` names the source of `want` in the message.
        """
        for port, value in self.stimulus.told(self.inputs, want).items():
            assert got[port] == value, (
                f"{self.name}.{port}: {got[port]:x}, {what} has {value:x} "
                f"(clock {self.clocks}, {self._told()})"
            )

    def _told(self) -> str:
        short = {name: value for name, value in self.inputs.items() if value < 1 << 32}
        return ", ".join(f"{name}={value:x}" for name, value in short.items())


async def _reset(dut: Any, seed: str) -> list[Pair]:
    """Reset, and return the pairs of all twins; the first inputs are driven at the next edge."""
    rng = random.Random(f"{seed} {cocotb.RANDOM_SEED}")
    dut.rst_n.value = 0
    twins = [Twin(name, PARAMETERS, TWINS) for name in STIMULI]
    pairs = [Pair(dut, twin, random.Random(rng.random())) for twin in twins]
    await Timer(1, unit="ns")
    Clock(dut.clk, 2, unit="ns", impl="gpi").start()
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst_n.value = 1
    return pairs


async def _clock(dut: Any, pairs: list[Pair]) -> None:
    """Drive new inputs after a clock edge, and wait half a clock for the outputs."""
    await RisingEdge(dut.clk)
    for pair in pairs:
        pair.drive(pair.stimulus.draw())
    await FallingEdge(dut.clk)


def _ended(pairs: list[Pair]) -> None:
    """End the clock: pass the outputs, if valid, to each stimulus, and count the clock."""
    for pair in pairs:
        if pair.meant:
            pair.stimulus.answered(pair.outputs())
        pair.clocks += 1


@cocotb.test()
async def stepped(dut: Any) -> None:
    """Check the RTL against the twins in MyHDL's simulator, stepped clock by clock."""
    pairs = await _reset(dut, "stepped")
    with Stepper([Twin(pair.name, PARAMETERS, TWINS) for pair in pairs]) as stepper:
        for pair in pairs:
            stepper.inputs(pair.name, pair.inputs)
        stepper.clock()
        for _ in range(round(STEPPED * scale())):
            await _clock(dut, pairs)
            for pair in pairs:
                got = stepper.inputs(pair.name, pair.inputs)
                if pair.meant:
                    pair.compare(pair.outputs(), got, "its twin in MyHDL")
            _ended(pairs)
            stepper.clock()


@cocotb.test()
async def converted(dut: Any) -> None:
    """Return the outputs of the converted twin by name."""
    pairs = await _reset(dut, "converted")
    for _ in range(round(CONVERTED * scale())):
        await _clock(dut, pairs)
        for pair in pairs:
            if pair.meant:
                pair.compare(pair.outputs(), pair.converted(), "its converted twin")
        _ended(pairs)
