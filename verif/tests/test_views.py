# SPDX-License-Identifier: Apache-2.0
"""Closed epochs, INFO of lines and STATUS of regions (second edition, sections 4 and 5)."""

from cocotbext.cxl.config import CxlConfig, ReadyPattern
from models.commit_check import most_workers
from models.info_status_lines import LineInfo
from models.regions import INFO_SELECTOR
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.sequences import round_views
from verif.sequences.base import NfSequence
from verif.tests.decorator import ALL, host_link, nf_test

ROUNDS = 100
"""Number of epochs of the long test: ten seeds of the nightly suite close 1,000 of them."""


ONE_CREDIT = {"grant_data": 1, "return_delay": (150, 200)}
"""`LinkConfig` of a host that accepts one read response at a time, and returns its credit late."""


def retrain(cfg: EnvConfig) -> None:
    """Set the host of ONE_CREDIT with retry, and a physical layer that retrains for 300 clocks."""

    def shape(config: CxlConfig) -> None:
        few(config)
        config.retrain_clocks = 300

    host_link(retry=True, **ONE_CREDIT)(cfg)
    few, cfg.shape_link = cfg.shape_link, shape


@nf_test(profiles=ALL, shows="test_views::close")
async def close(test: NfBaseTest) -> None:
    """Check that after CLOSE all hosts read the same, and that later contributions are LATE."""
    await round_views.CloseSequence(
        test.env, rounds=len(round_views.AGGREGATING)
    ).run()  # unscaled: fewer see no duplicate


@nf_test(profiles=ALL, shows="test_views::close")
async def many_rounds(test: NfBaseTest) -> None:
    """Check CLOSE in 100 epochs (times NF_SCALE): final reads of all hosts, and the count of LATE.

    Reads after the response of CLOSE must be the same for all hosts and not change. Contributions
    that arrive after CLOSE must be counted as LATE.
    """
    await round_views.CloseSequence(test.env, rounds=test.cfg.count(ROUNDS)).run()


@nf_test(round_views.HeldCloseSequence, configure=host_link(**ONE_CREDIT))
def held_close() -> None:
    """Check that CLOSE is answered after the responses of all reads that arrived before it."""


@nf_test(round_views.HeldCloseSequence, configure=retrain, retrain=True)
def close_in_retrain() -> None:
    """Check that CLOSE, written while the physical layer is down, waits for earlier reads."""


def pauses(cfg: EnvConfig) -> None:
    """Set a host that takes no flit for 40 to 90 clocks at a time."""
    cfg.shape_link = lambda config: setattr(config, "ready", ReadyPattern(0.4, hold=(40, 90)))


@nf_test(round_views.HeldCloseSequence, configure=pauses, most=2)
def close_in_pauses() -> None:
    """Check that CLOSE waits for the flits of earlier reads that the host does not take."""


@nf_test(profiles=ALL)
async def info(test: NfBaseTest) -> None:
    """Check that reads of INFO are ordered with the contributions of their line."""
    for mode in round_views.aggregating(test.cfg.hw):
        await round_views.InfoSequence(test.env, mode=mode).run()


@nf_test(round_views.StatusSequence, profiles=ALL)
def status() -> None:
    """Check that STATUS counts the events of its region since the commit, and nothing else."""


@nf_test(round_views.StatusSequence, steps=40, many=260)
def many_lines() -> None:
    """Check that the lines of a worker are counted beyond 255."""


@nf_test(NfSequence)
async def full_lines(run: NfSequence) -> None:
    """Check INFO of complete lines of as many workers as possible, clean and poisoned."""
    for mode in round_views.aggregating(run.hw):
        most = most_workers(mode, run.hw)
        config = await run.start_region(None, mode, 1, most, strict=run.random() < 0.5)
        poisoned = run.randrange(most)  # what counts is its clean resend
        for worker in run.shuffled(range(most)):
            if worker == poisoned:
                await run.contribute(config, worker, 0, limit=1, poison=True)
            await run.fill_lines(config, None, worker, limit=1, wait=False)
        await run.drain()
        for line in range(config.lines):
            info = LineInfo.unpack((await run.fetch(config.address(INFO_SELECTOR, line))).data)
            assert info.complete, f"{mode.name}, line {line}: all workers, and not complete"
            assert info.poisoned == (line == 0)
        first = INFO_SELECTOR if mode.bits else 0
        await run.read_lines(config, run.randrange(config.lines), first)
