# SPDX-License-Identifier: Apache-2.0
"""G_TERN5: five ternary votes a byte, in a device that has the mode."""

from __future__ import annotations

from typing import Any

import cocotb

from verif.env.base_test import NfBaseTest, run_negative, run_uvm
from verif.env.config import EnvConfig
from verif.sequences.int_codes import (
    EveryByteSequence,
    EveryNetSequence,
    Tern5CodesSequence,
    Tern5RefusalSequence,
)
from verif.tests.faulty_parts import misreading


class EveryByteTest(NfBaseTest):
    """All 256 bytes."""

    async def scenario(self) -> None:
        await EveryByteSequence(self.env).run()


class EveryNetTest(NfBaseTest):
    """All counts."""

    async def scenario(self) -> None:
        await EveryNetSequence(self.env).run()


class Tern5CodesTest(NfBaseTest):
    """Drawn votes; lines are evicted and fetched again."""

    async def scenario(self) -> None:
        await Tern5CodesSequence(self.env).run()


class Tern5RefusalTest(NfBaseTest):
    """What G_TERN5 regions refuse."""

    async def scenario(self) -> None:
        await Tern5RefusalSequence(self.env).run()


class OtherThreshold(NfBaseTest):
    """Negative twin: the predictor takes every threshold for 2."""

    def configure(self, cfg: EnvConfig) -> None:
        super().configure(cfg)
        cfg.parts.predictor = misreading({"threshold": 2})

    async def scenario(self) -> None:
        await EveryByteSequence(self.env).run()


@cocotb.test()
async def every_byte(_dut: Any) -> None:
    """Each of the 256 bytes, legal or not, decoded, counted, voted on and encoded again."""
    await run_uvm(EveryByteTest)


@cocotb.test()
async def every_net(_dut: Any) -> None:
    """Every net of up to 64 workers, at thresholds below, at and above it."""
    await run_uvm(EveryNetTest)


@cocotb.test()
async def codes(_dut: Any) -> None:
    """Votes of any subset of workers in any order, through evictions and rounds of other modes."""
    await run_uvm(Tern5CodesTest)


@cocotb.test()
async def refusals(_dut: Any) -> None:
    """Views of other modes, partial writes, reserved modes, too many workers."""
    await run_uvm(Tern5RefusalTest)


@cocotb.test()
async def other_threshold(_dut: Any) -> None:
    """A bench that expects votes at another threshold is told so."""
    await run_negative(OtherThreshold, "MISMATCH")
