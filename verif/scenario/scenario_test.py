# SPDX-License-Identifier: Apache-2.0
"""Base test of the scenario generator: draw or read a scenario, write it next to the log, play
it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from neuron_fabric.data import DataError, read_text
from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig
from verif.scenario import weights
from verif.scenario.generator import OPERATIONS, generate
from verif.scenario.player import ScenarioSequence, configure
from verif.scenario.scenario_data import Scenario, parse
from verif.scenario.weights import USES

SEED_MASK = (1 << 64) - 1
STUCK_CLOCKS = 40_000
INIT_CLOCKS, INIT_LINES = 10, 1 << 16
"""A line of a large region may wait until the initialiser has come to it, which gives way to others
for up to 7 clocks a record, while memory stalls. More lines of a region count as so many: a hang
has to be told before the run's own time-out."""


class ScenarioTest(NfBaseTest):
    """Test that plays a drawn scenario, or the one in the file that NF_SCENARIO names.

    Attributes:
        use: Directed use of the generator (a key of `weights.USES`), or "mixed" for the default
            weights. NF_WEIGHTS overrides the weights.
    """

    use: ClassVar[str] = "mixed"

    def configure(self, cfg: EnvConfig) -> None:
        given = os.environ.get("NF_SCENARIO")
        if given:
            self.drawn = read_scenario(given, cfg)
            cfg.seed = self.drawn.seed
        else:
            cfg.seed &= SEED_MASK  # cocotb's have 160 bits
            table = weights.Weights(USES.get(self.use, {}), weights.from_environment())
            self.drawn = generate(cfg.seed, cfg.hw, table, cfg.count(OPERATIONS))
        configure(cfg, self.drawn)
        records = sum(min(region.config.lines, INIT_LINES) for region in self.drawn.regions)
        cfg.stuck_clocks = STUCK_CLOCKS + INIT_CLOCKS * records
        self._keep()

    def _keep(self) -> None:
        """Write the scenario as `scenario-USE.json` next to the run's metrics, before the run can
        fail.
        """
        metrics = os.environ.get("NF_METRICS")
        if metrics:
            file = Path(metrics).with_name(f"scenario-{self.use}.json")
            file.write_text(self.drawn.text(), encoding="utf-8")

    async def scenario(self) -> None:
        regions, operations = len(self.drawn.regions), len(self.drawn.operations)
        self.logger.info(
            "scenario: seed %d, %d descriptors, %d operations",
            *(self.drawn.seed, regions, operations),
        )
        await ScenarioSequence(self.env, scenario=self.drawn).run()


def read_scenario(path: str, cfg: EnvConfig) -> Scenario:
    """Return the scenario in a file.

    Raises:
        DataError: The file cannot be read, is no scenario, or is for another device than the build.
    """
    try:
        found = parse(read_text(path))
    except OSError as error:
        raise DataError(f"NF_SCENARIO: {path}: {error.strerror}") from None
    except DataError as error:
        raise DataError(f"NF_SCENARIO: {path}: {error}") from None
    if found.hardware != cfg.hw:
        raise DataError(f"NF_SCENARIO: {path}: is for {found.hardware}, this build is {cfg.hw}")
    return found
