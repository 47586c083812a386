# SPDX-License-Identifier: Apache-2.0
"""Build parameters of the device, used by the model, the register map and the testbench."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

LINE_ADDRESS_BITS = 46
_RANGES = (
    ("cnt_w", 1, 8),
    ("gen_w", 1, 32),
    ("ecc", 0, 2),
    ("tern5", 0, 1),
    ("mem_lines_log2", 0, LINE_ADDRESS_BITS),
)


@dataclass(frozen=True)
class DeviceParams:
    """Parameters of the RTL that are visible from outside; the defaults are those of the RTL.

    Raises:
        ValueError: such a device cannot be built (spec: controller §2 and §5).
    """

    regions: int = 8
    slots: int = 256
    cnt_w: int = 8
    mem_lines_log2: int = 20
    retry_depth: int = 64
    req_credits: int = 64
    rwd_credits: int = 32
    gen_w: int = 32
    ecc: int = 1
    """Protection of the RAMs: 0 none, 1 parity, 2 SECDED (second edition, section 8)."""
    tern5: int = 0
    """1 to build with the mode G_TERN5 (second edition, section 10)."""

    def __post_init__(self) -> None:
        if self.regions < 1 or self.slots < 1:
            raise ValueError("a device has at least one region and one slot")
        for name, low, high in _RANGES:
            if not low <= (value := getattr(self, name)) <= high:
                raise ValueError(f"{name} is {low}..{high}, not {value}")

    @classmethod
    def from_rtl(cls, values: Mapping[str, int]) -> DeviceParams:
        """Return parameters from values by RTL parameter name.

        Unknown names are ignored; missing ones keep the default.
        """
        names = {f.name.upper(): f.name for f in fields(cls)}
        return cls(**{names[key]: value for key, value in values.items() if key in names})

    def as_rtl(self) -> dict[str, int]:
        """Return the values by RTL parameter name, as in the RDL and the top module.

        GEN_W is omitted: no register shows it.
        """
        return {f.name.upper(): getattr(self, f.name) for f in fields(self) if f.name != "gen_w"}

    @property
    def mem_lines(self) -> int:
        """Return the size of the device's memory in lines."""
        return 1 << self.mem_lines_log2

    @property
    def cnt_max(self) -> int:
        """Return the value at which a counter saturates: 2^CNT_W - 1."""
        return (1 << self.cnt_w) - 1
