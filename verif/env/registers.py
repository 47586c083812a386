# SPDX-License-Identifier: Apache-2.0
"""Register access by name, for tests and sequences."""

import random

from models.commit_check import CommitCode
from models.regions import RegionConfig
from models.register_types import FieldAccess, Register, byte_mask
from verif.axi import Resp
from verif.regs.axil import FULL_STROBE, STROBE_RUNS, AxiLitePort
from verif.scoreboard.register_predictor import COUNTERS, RegisterPredictor


class Registers:
    """Register accesses by name over AXI4-Lite, which the predictor checks."""

    def __init__(self, port: AxiLitePort, predictor: RegisterPredictor, seed: int) -> None:
        self.port = port
        self.predictor = predictor
        self.rng = random.Random(seed)

    async def write(self, name: str, value: int) -> None:
        """Write a register, or a field such as "REGION[2].CONFIG.MODE" with the other fields as
        last written. Half of the writes leave out bytes that change nothing.

        Raises:
            AssertionError: The device does not answer OKAY.
        """
        register, field = self.predictor.find(name)
        if field is not None:
            value = field.insert(self.predictor.values[register.name], value)
        resp = await self.port.write(register.address, value, self._strobe(register, value))
        assert resp is Resp.OKAY, f"write of {name} answered {resp.name}"

    def _strobe(self, register: Register, value: int) -> int:
        """Draw byte strobes for a write: a run of bytes that holds all that the word changes.

        All bytes while the control window is open, where others may write the register first.
        """
        predictor = self.predictor
        if predictor.scoreboard.model.control.base or self.rng.random() < 0.5:
            return FULL_STROBE
        old = predictor.values[register.name]
        if register.name.endswith("].EPOCH"):
            old = predictor.scoreboard.epochs.get(predictor.region_of(register.name), 0)
        changed = (old ^ value) & register.mask(FieldAccess.RW, FieldAccess.COMMIT)
        changed |= value & register.mask(FieldAccess.W1C, FieldAccess.PULSE)
        return self.rng.choice([run for run in STROBE_RUNS if not changed & ~byte_mask(run)])

    async def read(self, name: str) -> int:
        """Read a register or a field by name, and return its value.

        Raises:
            AssertionError: The device does not answer OKAY.
        """
        register, field = self.predictor.find(name)
        data, resp = await self.port.read(register.address)
        assert resp is Resp.OKAY, f"read of {name} answered {resp.name}"
        return data if field is None else field.extract(data)

    async def write_shadow(self, region: int, config: RegionConfig) -> None:
        """Write the shadow registers of a region that differ from those of a descriptor."""
        for leaf, value in config.register_values().items():
            name = f"REGION[{region}].{leaf}"
            if self.predictor.values[name] != value:
                await self.write(name, value)

    async def commit(self, region: int, config: RegionConfig | None, epoch: int) -> CommitCode:
        """Commit a region: write the shadow registers, then EPOCH.

        Args:
            region: Number of the region.
            config: Descriptor; None leaves the shadow registers as they are.
            epoch: Value of EPOCH.

        Returns:
            The result code, from a read of STATUS.CODE.
        """
        if config is not None:
            await self.write_shadow(region, config)
        await self.write(f"REGION[{region}].EPOCH", epoch)
        return CommitCode(await self.read(f"REGION[{region}].STATUS.CODE"))

    async def read_counters(self) -> dict[str, int]:
        """Read and return every event counter that the scoreboard compares, by name."""
        return {name: await self.read(name) for name in COUNTERS}

    async def read_status(self) -> None:
        """Read the status registers of the device and of every region with a commit, to compare
        them.
        """
        for name in ("DONE", "ERR_INFO", "ERR_ADDR_LO", "ERR_ADDR_HI", "ERR_TAG"):
            await self.read(name)
        for region in range(self.predictor.regions):
            if (
                self.predictor.scoreboard.configs[region] is not None
                or region in self.predictor.scoreboard.codes
            ):
                for leaf in ("STATUS", "COMPLETE_LINES", "EPOCH"):
                    await self.read(f"REGION[{region}].{leaf}")

    async def read_all(self) -> None:
        """Read every register of the device, so that the predictor compares it."""
        for name in self.predictor.by_name:
            await self.read(name)
