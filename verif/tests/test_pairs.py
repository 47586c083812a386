# SPDX-License-Identifier: Apache-2.0
"""Pairs of features over shared resources: B arrives in the state that A left."""

import cocotb

from verif.coverage.coverage_plan import entries, values_of
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.scoreboard.lenient import LenientScoreboard
from verif.sequences.pairs import FLIP, POINT, FeaturePairSequence
from verif.tests.decorator import host_link, nf_test


class PairTest(NfBaseTest):
    """Test of the bins of the cover point "pair", of those with RAM flips or of the others."""

    most = 0
    """Number of bins that are drawn; 0 for all."""

    def configure(self, cfg: EnvConfig) -> None:
        host_link(grant_plain=1, grant_data=1)(cfg)
        part: tuple[str, bool] = self.settings.get("part") or ("", self.settings["flips"])
        self.resource, self.flips = part
        if self.flips:
            cfg.parts.scoreboard = LenientScoreboard
            cfg.check_counters = False

    async def scenario(self) -> None:
        bins = [
            name
            for name in self.env.coverage.model.points[POINT].bins
            if (FLIP in name) == self.flips and name.startswith(self.resource)
        ]
        if self.most:
            bins = self.env.rng.sample(bins, self.cfg.count(self.most))
        await FeaturePairSequence(self.env, bins=bins).run()


FLIPS = [cocotb.Param(value=flips, name=str(int(flips))) for flips in (False, True)]
FOUND = values_of(entries()[POINT].axes["found"])
PARTS = [
    cocotb.Param(value=(name, flips), name=name.replace(" ", "_") + "_flips" * flips)
    for name in dict.fromkeys(one.partition(":")[0] for one in FOUND)
    for flips in (False, True)[: 1 if name == "credits" else 2]
]


@cocotb.parametrize(part=PARTS)
@nf_test(PairTest)
def every() -> None:
    """Check each feature in the state of each shared resource that each other feature left."""


@cocotb.parametrize(flips=FLIPS)
@nf_test(PairTest, most=40)
def drawn() -> None:
    """Check drawn pairs of features in the state of a resource that the other one left."""
