# SPDX-License-Identifier: Apache-2.0
"""Pairs of features over shared resources: B arrives in the state that A left."""

from __future__ import annotations

import cocotb

from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.scoreboard.lenient import LenientScoreboard
from verif.sequences.pairs import FLIP, POINT, FeaturePairSequence
from verif.tests.decorator import nf_test


class PairTest(NfBaseTest):
    """Test of the bins of the cover point "pair", of those with RAM flips or of the others."""

    most = 0
    """Number of bins that are drawn; 0 for all."""

    def configure(self, cfg: EnvConfig) -> None:
        if self.settings["flips"]:
            cfg.parts.scoreboard = LenientScoreboard
            cfg.check_counters = False

    async def scenario(self) -> None:
        bins = [
            name
            for name in self.env.coverage.model.points[POINT].bins
            if (FLIP in name) == self.settings["flips"]
        ]
        if self.most:
            bins = self.env.rng.sample(bins, self.cfg.count(self.most))
        await FeaturePairSequence(self.env, bins=bins).run()


FLIPS = [cocotb.Param(value=flips, name=str(int(flips))) for flips in (False, True)]


@cocotb.parametrize(flips=FLIPS)
@nf_test(PairTest)
def every() -> None:
    """Check each feature in the state of each shared resource that each other feature left."""


@cocotb.parametrize(flips=FLIPS)
@nf_test(PairTest, most=40)
def drawn() -> None:
    """Check drawn pairs of features in the state of a resource that the other one left."""
