# SPDX-License-Identifier: Apache-2.0
"""Collectives over a pool: hosts, switch and devices at signal level."""

import random

import cocotb

from verif.fabric.drawn_collectives import run_aborts, run_collectives, run_zombie
from verif.fabric.faulty_switch import FAULTS, FaultySwitch
from verif.fabric.litmus import run_litmus, run_twins
from verif.fabric.pool_bench import PoolTest
from verif.fabric.switch import Switch
from verif.tests.decorator import ALL, nf_test


@nf_test(PoolTest, profiles=ALL)
async def collectives(test: PoolTest) -> None:
    """Check every collective, passive and by the device for each route, bit for bit."""
    await run_collectives(test)


@nf_test(PoolTest, patience=4000)
async def zombie(test: PoolTest) -> None:
    """Check that a pool shrinks without a paused host, whose requests are refused afterwards."""
    await run_zombie(test)


@nf_test(PoolTest, patience=4000)
async def aborts(test: PoolTest) -> None:
    """Check that a rank that gives up ends the waits of all others, of whatever kind."""
    await run_aborts(test)


@nf_test(PoolTest)
async def litmus(test: PoolTest) -> None:
    """Check that no litmus test of ranks shows the outcome that signals and waits forbid."""
    await run_litmus(test)


@nf_test(PoolTest)
async def litmus_twins(test: PoolTest) -> None:
    """Check that each twin of a litmus test, which breaks one rule, shows the outcome."""
    await run_twins(test)


class FaultyTest(PoolTest):
    """Test with a switch that has the fault of the parameter."""

    patience = 4000

    def switch(self, hosts: int, rng: random.Random) -> Switch:
        switch = FaultySwitch(self.envs, hosts, rng)
        switch.fault = self.settings["fault"]
        return switch


@cocotb.parametrize(fault=[cocotb.Param(one, one.replace(" ", "-")) for one in FAULTS])
@nf_test(FaultyTest, fails="rank")
async def faulty_switch(test: PoolTest) -> None:
    """Check that the pool finds each fault of a switch (negative twins)."""
    await run_collectives(test)
