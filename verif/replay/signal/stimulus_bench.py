# SPDX-License-Identifier: Apache-2.0
"""Testbench of `nf replay --stimulus`: the transactions of a fault at signal level, with all
checkers.
"""

import os
from itertools import groupby
from pathlib import Path
from typing import Any

import cocotb

from cocotbext.cxl.transactions import Transaction
from cocotbext.cxl.uvm_agent import CxlMemSequence
from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp
from models.commit_check import CommitCode
from verif.env.base_test import NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.env.env import NfEnv
from verif.replay.stimulus_file import STIMULUS, CommitOperation, Operation, Read, Stimulus, Write


class StimulusSequence(CxlMemSequence):
    """Sequence that drives the operations of a stimulus in order.

    Consecutive operations of one kind are issued back to back; others wait for those before them.
    """

    def __init__(self, env: NfEnv, stimulus: Stimulus) -> None:
        super().__init__("stimulus")
        self.env = env
        self.stimulus = stimulus
        self.reads = 0

    async def body(self) -> None:
        writes: list[Transaction] = []
        for kind, group in groupby(self.stimulus.operations, type):
            members = list(group)
            if kind is Write:
                writes += await self.issue_all([_message(one) for one in members])
                continue
            for write in writes:
                await write.wait()
            writes.clear()
            if kind is CommitOperation:
                for one in members:
                    assert isinstance(one, CommitOperation)
                    code = await self.env.registers.commit(one.region, one.config, one.epoch)
                    assert code == CommitCode.OK, f"the commit was refused: {code.name}"
            else:
                await self._read(members)
        for write in writes:
            await write.wait()

    async def _read(self, members: list[Operation]) -> None:
        transactions = await self.issue_all([_message(one) for one in members])
        for one, transaction in zip(members, transactions):
            assert isinstance(one, Read)
            answer = await transaction.wait()
            assert isinstance(answer, S2MDRS), f"read of {one.address:#x} answered by {answer}"
            self.reads += 1
            assert answer.data == one.expect, (
                f"read of {one.address:#x} gave {answer.data.hex()}, the reducers say "
                f"{one.expect.hex()} ({self.stimulus.note})"
            )


def _message(one: Operation) -> M2SReq | M2SRwD:
    if isinstance(one, Write):
        return M2SRwD(RwdOp.MEM_WR, 0, one.address, ldid=one.ldid, data=one.data)
    assert isinstance(one, Read)
    return M2SReq(ReqOp.MEM_RD, 0, one.address, ldid=one.ldid)


class StimulusTest(NfBaseTest):
    """Test that fails if a read differs from the reducers, or any other checker fails."""

    def configure(self, cfg: EnvConfig) -> None:
        self.settings["stimulus"].memory.apply(cfg.mem)

    async def scenario(self) -> None:
        sequence = StimulusSequence(self.env, self.settings["stimulus"])
        await sequence.start(self.env.cxl.sequencer)
        assert sequence.reads, "the stimulus reads nothing: it cannot show anything"
        self.figure("reads", sequence.reads)


@cocotb.test(skip=STIMULUS not in os.environ)
async def stimulus(_dut: Any) -> None:
    """Drive the transactions of the stimulus file that NF_REPLAY_STIMULUS names."""
    await run_uvm(StimulusTest, stimulus=Stimulus.read(Path(os.environ[STIMULUS])))
