# SPDX-License-Identifier: Apache-2.0
"""Rounds that close, INFO of lines and STATUS of regions (second edition, sections 4 and 5)."""

from __future__ import annotations

from typing import Any

import cocotb

from cocotbext.cxl.config import CxlConfig
from models.regions import INFO_SELECTOR
from models.views import LineInfo
from verif.env.base_test import PROFILES, NfBaseTest, run_uvm
from verif.env.config import EnvConfig
from verif.sequences.base import NfSequence
from verif.sequences.round_views import (
    AGGREGATING,
    CloseSequence,
    HeldCloseSequence,
    InfoSequence,
    StatusSequence,
    aggregating,
    most_workers,
)

ROUNDS = 100
"""Rounds of the long test: ten seeds of the nightly suite close 1,000 of them."""


class CloseTest(NfBaseTest):
    """A round in each mode."""

    shows = "test_views::close"
    rounds = len(AGGREGATING)

    async def scenario(self) -> None:
        await CloseSequence(self.env, rounds=self.cfg.count(self.rounds)).run()


class ManyRoundsTest(CloseTest):
    """Many rounds."""

    rounds = ROUNDS


def one_credit(config: CxlConfig) -> None:
    """A host that takes one answer with data at a time, and late."""
    config.link.grant_data = 1
    config.link.return_delay = (150, 200)


class HeldCloseTest(NfBaseTest):
    """CLOSE while answers wait for credits."""

    def configure(self, cfg: EnvConfig) -> None:
        cfg.shape_link = one_credit

    async def scenario(self) -> None:
        await HeldCloseSequence(self.env).run()


class RetrainCloseTest(NfBaseTest):
    """The same while the physical layer is down."""

    def configure(self, cfg: EnvConfig) -> None:
        def shape(config: CxlConfig) -> None:
            one_credit(config)
            config.link.retry = True
            config.retrain_clocks = 300

        cfg.shape_link = shape

    async def scenario(self) -> None:
        await HeldCloseSequence(self.env, retrain=True).run()


class InfoTest(NfBaseTest):
    """INFO in each aggregating mode."""

    async def scenario(self) -> None:
        for mode in aggregating(self.cfg.hw):
            await InfoSequence(self.env, mode=mode).run()


class FullLinesTest(NfBaseTest):
    """INFO of lines that every worker has contributed to, some of them a second time."""

    async def scenario(self) -> None:
        run, rng = NfSequence(self.env), self.env.rng
        for mode in aggregating(self.cfg.hw):
            most = most_workers(mode, self.cfg.hw)
            config = run.layout.region(mode, 1, most, strict=rng.random() < 0.5)
            await run.commit(rng.randrange(self.cfg.hw.regions), config)
            poisoned = rng.randrange(most)  # what counts is its clean resend
            for worker in rng.sample(range(most), most):
                if worker == poisoned:
                    await run.contribute(config, worker, 0, limit=1, poison=True)
                await run.contribute(config, worker, 0, limit=1)
                await run.contribute(config, worker, 1, limit=1)
            await run.drain()
            for line in range(config.lines):
                info = LineInfo.unpack((await run.fetch(config.address(INFO_SELECTOR, line))).data)
                assert info.complete, f"{mode.name}, line {line}: all workers, and not complete"
                assert info.poisoned == (line == 0)
            first = INFO_SELECTOR if mode.bits else 0
            await run.read_region(config, rng.randrange(config.lines), first)
            await run.drain()


class StatusTest(NfBaseTest):
    """STATUS of two regions."""

    async def scenario(self) -> None:
        await StatusSequence(self.env).run()


class ManyLinesTest(NfBaseTest):
    """STATUS of workers with more lines than a byte counts."""

    async def scenario(self) -> None:
        await StatusSequence(self.env, steps=40, many=260).run()


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def close(_dut: Any, profile: str) -> None:
    """A round that is closed at any moment reads the same for all; what comes then is LATE."""
    await run_uvm(CloseTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def many_rounds(_dut: Any, profile: str) -> None:
    """The same, a hundred rounds."""
    await run_uvm(ManyRoundsTest, profile)


@cocotb.test()
async def held_close(_dut: Any) -> None:
    """CLOSE is answered when every read that found the round open has its data."""
    await run_uvm(HeldCloseTest)


@cocotb.test()
async def close_in_retrain(_dut: Any) -> None:
    """CLOSE while the physical layer is down waits for the same reads."""
    await run_uvm(RetrainCloseTest)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def info(_dut: Any, profile: str) -> None:
    """INFO is ordered with the contributions of its line."""
    await run_uvm(InfoTest, profile)


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def status(_dut: Any, profile: str) -> None:
    """STATUS counts what has happened to its region since the commit, and nothing else."""
    await run_uvm(StatusTest, profile)


@cocotb.test()
async def many_lines(_dut: Any) -> None:
    """Lines of a worker are counted beyond a byte."""
    await run_uvm(ManyLinesTest)


@cocotb.test()
async def full_lines(_dut: Any) -> None:
    """INFO of complete lines, of as many workers as there can be, clean and poisoned."""
    await run_uvm(FullLinesTest)
