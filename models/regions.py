# SPDX-License-Identifier: Apache-2.0
"""Region descriptors, the selectors of their windows, and the sizes of their state areas.

Addresses of messages and descriptors are byte addresses; all counts are in 64-byte lines. A line
address is bits [51:6] of the byte address, 46 bits. Spec: controller §2 and §6, second edition §10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from models.int_sums import sum8_lines, sum16_lines
from models.line_packing import LINE_BYTES
from models.modes import Mode
from models.register_map import REG_MAP
from models.register_types import WORD_MASK

MAX_WORKERS = 64
SELECTOR_BITS = 8
SELECTORS = 1 << SELECTOR_BITS
INFO_SELECTOR = 1
STATUS_SELECTOR = 2
WORKER_LINES_SELECTOR = 3
VIEW_SELECTORS = range(STATUS_SELECTOR, WORKER_LINES_SELECTOR + 4)
"""Selectors of the region's status, at line 0 only."""
PLANE_SELECTOR = 8
PLANE_COUNT = 8
RAW_SELECTOR = 64
MAX_BIND_SHIFT = 2
SUM16_SELECTOR = 16
SUM8_SELECTOR = 32
_CONFIG = REG_MAP.region_register("CONFIG")


@dataclass(frozen=True)
class RegionConfig:
    """Descriptor of one region, as software writes it to the shadow registers.

    ``base`` and ``state_base`` are byte addresses, multiples of 64 below 2**52. A commit checks
    whether the descriptor is legal.

    Raises:
        ValueError: a value does not fit its register field.
    """

    base: int
    state_base: int
    lines_log2: int
    workers: int
    mode: Mode
    tie_minus: bool = False
    strict: bool = False
    bind: bool = False
    threshold: int = 1
    ld_mask: int = 0xFFFF
    bind_shift: int = 0
    signed: bool = True
    """Integer codes are two's complement."""
    keep_sum: bool = False  # FP32: the sum of a complete line is kept in the state area

    def __post_init__(self) -> None:
        for name, value in (("base", self.base), ("state_base", self.state_base)):
            if value % LINE_BYTES or not 0 <= value < 1 << 52:
                raise ValueError(f"{name} must be a multiple of 64 below 2**52, not {value:#x}")
        widths = (("lines_log2", 6), ("workers", 8), ("threshold", 8), ("ld_mask", 16))
        for name, bits in widths:
            value = getattr(self, name)
            if not 0 <= value < 1 << bits:
                raise ValueError(f"{name} does not fit its {bits} bits: {value}")
        Mode(self.mode)
        if not 0 <= self.bind_shift <= MAX_BIND_SHIFT:
            raise ValueError(f"bind_shift is 0..{MAX_BIND_SHIFT}, not {self.bind_shift}")

    def register_values(self) -> dict[str, int]:
        """Return the shadow register values of the descriptor by register name, without EPOCH."""
        options = {one.name: int(getattr(self, one.name.lower())) for one in _CONFIG.fields}
        return {
            "BASE_LO": self.base & WORD_MASK,
            "BASE_HI": self.base >> 32,
            "STATE_BASE_LO": self.state_base & WORD_MASK,
            "STATE_BASE_HI": self.state_base >> 32,
            "LINES_LOG2": self.lines_log2,
            "WORKERS": self.workers,
            "CONFIG": _CONFIG.pack(**options),
            "THRESHOLD": self.threshold,
            "LD_MASK": self.ld_mask,
        }

    @classmethod
    def from_registers(cls, values: Mapping[str, int]) -> RegionConfig:
        """Return the descriptor in the shadow registers; inverts ``register_values``."""
        options = _CONFIG.unpack(values["CONFIG"])
        flags = {name.lower(): bool(value) for name, value in options.items()}
        codes = {"mode": Mode(options["MODE"]), "bind_shift": options["BIND_SHIFT"]}
        return cls(
            base=values["BASE_HI"] << 32 | values["BASE_LO"],
            state_base=values["STATE_BASE_HI"] << 32 | values["STATE_BASE_LO"],
            lines_log2=values["LINES_LOG2"],
            workers=values["WORKERS"],
            threshold=values["THRESHOLD"],
            ld_mask=values["LD_MASK"],
            **{**flags, **codes},  # type: ignore[arg-type]
        )

    @property
    def lines(self) -> int:
        """Return the number of lines per worker (n)."""
        return 1 << self.lines_log2

    @property
    def most(self) -> int:
        """Return the highest value that a counter can reach with all workers of the region."""
        return self.mode.counts_to(self.workers)

    @property
    def keeps_sums(self) -> bool:
        """Return True for an FP32 region with KEEP_SUM, which stores the sum of a complete line."""
        return self.keep_sum and self.mode == Mode.FP32

    @property
    def base_line(self) -> int:
        """Return the line address of the first line of the window."""
        return self.base // LINE_BYTES

    @property
    def state_line(self) -> int:
        """Return the line address of the first line of the state area."""
        return self.state_base // LINE_BYTES

    @property
    def window_lines(self) -> int:
        """Return the number of lines of the window."""
        return 1 << (self.lines_log2 + SELECTOR_BITS)

    def owner(self, selector: int) -> int:
        """Return the LD-ID that may write at a selector (worker) with BIND (second edition §6)."""
        return selector >> self.bind_shift

    def address(self, selector: int, line: int) -> int:
        """Return the byte address of line ``line`` at a selector of the window.

        Raises:
            ValueError: the selector or the line is out of range.
        """
        if not 0 <= selector < SELECTORS or not 0 <= line < self.lines:
            raise ValueError(f"no such place in the window: selector {selector}, line {line}")
        return self.base + ((selector << self.lines_log2) + line) * LINE_BYTES


def sum_selectors(config: RegionConfig) -> tuple[int, ...]:
    """Return the selectors of sums in an integer mode: SUM16 lines, then any SUM8 lines."""
    wide, narrow = sum16_lines(config.mode), sum8_lines(config.mode, config.workers)
    return (
        *range(SUM16_SELECTOR, SUM16_SELECTOR + wide),
        *range(SUM8_SELECTOR, SUM8_SELECTOR + narrow),
    )


def planes_kept(most: int, cnt_w: int) -> int:
    """Return how many count planes a record stores: min(cnt_w, ceil(log2(most + 1))).

    ``most`` is the highest value of a counter: W in all modes except G_TERN5.
    """
    return min(cnt_w, most.bit_length())


def record_lines(most: int, cnt_w: int) -> int:
    """Return the lines of a low-bit state record: bookkeeping and planes, up to a power of two."""
    return 1 << planes_kept(most, cnt_w).bit_length()


def records(config: RegionConfig, cnt_w: int) -> tuple[int, int]:
    """Return the line address of the first state record of a region, and their distance in lines.

    A record is the bookkeeping line, then count planes (low-bit modes) or the stored FP32 sum (with
    KEEP_SUM).
    """
    if config.mode.low_bit:
        return config.state_line, record_lines(config.most, cnt_w)
    behind = config.state_line + config.workers * config.lines
    return (behind + behind % 2, 2) if config.keeps_sums else (behind, 1)


def state_lines(config: RegionConfig, cnt_w: int) -> int:
    """Return the number of lines of a region's state area."""
    if config.mode == Mode.IDENTITY:
        return SELECTORS * config.lines
    if config.mode == Mode.FP32:
        keep = config.keeps_sums  # the records are then larger, and aligned
        return (config.workers + 1 + keep) * config.lines + keep
    return config.lines * record_lines(config.most, cnt_w)
