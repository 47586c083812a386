# SPDX-License-Identifier: Apache-2.0
"""Fault campaign on the link: no message is lost, repeated or wrong, whatever damages flits.

Each kind of fault alone and all of them mixed, both ways. The scoreboard checks every transaction,
the fault table the numbers of injected, detected and recovered faults (link spec §1, §2, §9).
Undetectable losses and copies of flits are in test_link_errors.
"""

from collections.abc import Sequence, Set
from functools import partial
from typing import Any

import cocotb

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.faults import CAMPAIGN, LOST_KINDS, FaultKind, FaultRule
from cocotbext.cxl.wire.flits import Direction, WireFlit
from models.regions import RegionConfig
from models.register_map import REG_MAP
from verif.coverage.link_points import PROFILES
from verif.env.base_test import run_uvm
from verif.env.config import EnvConfig
from verif.sequences.base import RACE_LIMIT
from verif.sequences.line_data import byte_enables
from verif.sequences.mixed import MixedRegionsSequence
from verif.tests.link_base_test import ICARUS, RETRY_TIMEOUT, LinkTest

FLITS = 350 if ICARUS else 1000
"""Number of flits each way and case; 22 cases make 22,000, NF_SCALE = 56 more than 1,000,000."""
MULTI_HEADER = REG_MAP.expand()["CTRL"].field("MULTI_HEADER").mask
RATES = {"1_in_1000": 0.001, "1_in_100": 0.01, "1_in_20": 0.05}
_RETRY_FLITS = (*LOST_KINDS, FaultKind.DAMAGED_FRAME, FaultKind.DAMAGED_REQ, FaultKind.DAMAGED_ACK)


_COMMON = tuple(kind for kind in CAMPAIGN if kind not in _RETRY_FLITS)
_FLIPS = (FaultKind.FLIP_1, FaultKind.FLIP_2, FaultKind.FLIP_3, FaultKind.BURST)
_CARRIER = FaultRule(FaultKind.FLIP_1, rate=0.02, spare_retry=True)
"""Bit errors that start retries, in which alone some kinds of faults can occur."""


def placed(
    kinds: Sequence[FaultKind], rate: float, first: int = 40, step: int = 60, in_retry: bool = False
) -> tuple[FaultRule, ...]:
    """Return a rule for each kind of fault: at a rate, and once at a fixed flit.

    The fixed flit (number `first` + `step` * n for kind n) makes sure that a short run has all
    kinds.
    """
    return tuple(
        FaultRule(kind, rate=rate, places=(first + step * number,), in_retry=in_retry)
        for number, kind in enumerate(kinds)
    )


def rules_of(case: str) -> tuple[FaultRule, ...]:
    """Return the fault rules of a case of the campaign by its name."""
    if case == "in_retry":
        return *placed(_COMMON, 0.004, 3, 7, in_retry=True), _CARRIER
    if case.startswith("mixed"):
        rate = RATES[case.removeprefix("mixed_")]
        # RETRY flits are rare: those that come are hit more often than others.
        rare = [FaultRule(kind, rate=rate) for kind in _RETRY_FLITS]
        return *rare, *placed(_COMMON, rate / len(_COMMON))
    if case in RATES:
        return placed(_FLIPS, RATES[case] / len(_FLIPS))
    kind = FaultKind[case.upper()]
    if kind in _RETRY_FLITS:
        often = 0.02 if "Frame" in kind.value else 0.1
        return FaultRule(kind, rate=often, places=(2,)), _CARRIER
    if kind is FaultKind.PHY_REINIT:
        return (FaultRule(kind, rate=0.004, places=(30,)),)
    return (FaultRule(kind, rate=0.02, places=(30,), clocks=(150, 600)),)


CASES = [
    *(kind.name.lower() for kind in CAMPAIGN),
    *RATES,
    *(f"mixed_{rate}" for rate in RATES),
    "in_retry",
]


class LinkTrafficSequence(MixedRegionsSequence):
    """Traffic to regions and ordinary memory in bursts, until ``flits`` have passed each way.

    Contributions reveal repeated messages (DUPLICATE counts), reads lost or changed ones.
    """

    flits: int = 1000
    lines: int = 256
    plain: float = 0.5

    async def traffic(self, configs: list[RegionConfig]) -> None:
        rng, tracker = self.rng, self.env.cxl.monitor.tracker
        tracker.counters["RX_FLIT"] = tracker.counters["TX_FLIT"] = 0
        while not self.ended():
            for _ in range(rng.choice((1, 3, 40))):
                await self.one(configs)
            if rng.random() < 0.1:  # H5 and G6 from now on, or no more
                await self.env.registers.write("CTRL", rng.choice((0, MULTI_HEADER)))
            if rng.random() < 0.3:
                await self.drain()
                await self.env.clocks(rng.choice((1, 20, 80)))

    def ended(self) -> bool:
        """Return True when enough flits have passed."""
        return min(self.passed()) >= self.flits

    def passed(self) -> tuple[int, int]:
        """Return the number of flits on the pins so far, M2S and S2M."""
        counters = self.env.cxl.monitor.tracker.counters
        return counters["RX_FLIT"], counters["TX_FLIT"]

    async def one(self, configs: list[RegionConfig]) -> None:
        """Issue a request to a random region or, with probability `plain`, to ordinary memory."""
        rng = self.rng
        if rng.random() < self.plain:
            be = byte_enables(rng) if rng.random() < 0.3 else None
            await self.either(rng.randrange(self.lines) << 6, RACE_LIMIT, be)
            return
        config = rng.choice(configs)
        line = rng.randrange(config.lines)
        if rng.random() < 0.4:
            await self.read_region(config, line, limit=RACE_LIMIT)
        else:
            await self.random_write(config, line)


class CampaignTest(LinkTest):
    """Test of one case of the fault campaign: traffic with its faults, then the fault table."""

    def configure(self, cfg: EnvConfig) -> None:
        self.case: str = self.settings["case"]
        super().configure(cfg)

    def plan(self) -> tuple[FaultRule, ...]:
        return rules_of(self.case)

    def traffic(self) -> LinkTrafficSequence:
        """Return the traffic that meets the faults."""
        return LinkTrafficSequence(self.env, flits=max(300, self.cfg.count(FLITS)))

    def shape(self, cfg: CxlConfig) -> None:
        super().shape(cfg)
        cfg.link.grant_plain, cfg.link.grant_data = 32, 16

    async def scenario(self) -> None:
        # Long enough for the placed faults, however little a smoke run asks for.
        traffic = self.traffic()
        self.faults.armed = True
        await traffic.run()
        self.faults.armed = False
        flits = traffic.passed()
        for _ in range(20):  # a retry that was disturbed at last needs its time-out
            await self.some_traffic(4)
            if self.faults.settled:
                break
            await self.env.clocks(RETRY_TIMEOUT + 200)
        table = await self.table(flits)
        self.logger.info("%s, %s:\n%s", self.case, self.cfg.profile, table.text())
        self.figure(f"faults.{self.case}", table.to_json())
        assert not table.problems, table.problems
        state = await self.env.registers.read("LINK_STATE")
        assert state == 0, f"LINK_STATE is {state:#x} after the last retry"
        counted = await self.read("RETRY_LOCAL", "RETRY_REMOTE", "PROTOCOL_ERROR")
        assert counted["PROTOCOL_ERROR"] == 0, "a fault has become a protocol error"
        if self.case in ("flip_1", "flip_2", "flip_3", "burst"):
            hit = self.faults.injected
            kind = FaultKind[self.case.upper()]
            assert counted["RETRY_LOCAL"] <= hit[kind, Direction.M2S]
            assert counted["RETRY_LOCAL"] > 0 or not hit[kind, Direction.M2S]


@cocotb.test()
@cocotb.parametrize(case=[cocotb.Param(value=case, name=case) for case in CASES])
async def link_faults(_dut: Any, case: str) -> None:
    """Check recovery from each kind of fault, bit errors up to 1 in 20 flits, and mixes of faults.

    Three consecutive seeds have each case under each profile: the seed of a test is that of the run
    plus a number that depends on its name.
    """
    await run_uvm(CampaignTest, PROFILES[cocotb.RANDOM_SEED % len(PROFILES)], case=case)


class EveryBinSequence(LinkTrafficSequence):
    """Traffic until each bin of "link fault" of a profile is hit.

    Attributes:
        missing: Kinds of faults still to inject, with True where a retry must be in progress.
        most: Flits each way after which the traffic ends anyway.
    """

    missing: Set[tuple[FaultKind, bool]] = frozenset()
    most: int = 20_000

    def ended(self) -> bool:
        return (not self.missing and super().ended()) or min(self.passed()) >= self.most


class EveryBinTest(CampaignTest):
    """Test of one profile with each kind of fault, in a retry and outside of one."""

    def configure(self, cfg: EnvConfig) -> None:
        everywhere = {(kind, retrying) for kind in _COMMON for retrying in (False, True)}
        self.missing = everywhere | {(kind, True) for kind in _RETRY_FLITS}
        super().configure(cfg)

    def plan(self) -> tuple[FaultRule, ...]:
        def missing(kind: FaultKind, _flit: WireFlit) -> bool:
            return (kind, self.faults.retrying) in self.missing

        rates = dict.fromkeys(_COMMON, 0.01) | dict.fromkeys(_RETRY_FLITS, 0.1)
        rules = [FaultRule(kind, rate=rates[kind], where=partial(missing, kind)) for kind in rates]
        return *rules, _CARRIER

    def traffic(self) -> LinkTrafficSequence:
        return EveryBinSequence(self.env, flits=300, missing=self.missing)

    def _injected(self, kind: FaultKind, direction: Direction) -> None:
        super()._injected(kind, direction)
        self.missing.discard((kind, self.faults.retrying))

    async def scenario(self) -> None:
        await super().scenario()
        names = sorted(f"{kind.value}, {'' if one else 'no '}retry" for kind, one in self.missing)
        assert not names, f"faults that were not injected: {'; '.join(names)}"


@cocotb.test()
@cocotb.parametrize(profile=[cocotb.Param(value=one, name=one) for one in PROFILES])
async def link_fault_bins(_dut: Any, profile: str) -> None:
    """Check recovery from each kind of fault in a retry and outside of one, under a profile.

    It hits each bin of "link fault" of the profile, whatever the seed.
    """
    await run_uvm(EveryBinTest, profile, case="every bin")
