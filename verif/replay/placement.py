# SPDX-License-Identifier: Apache-2.0
"""Where the regions of a replay lie: windows and state areas that the commit checks accept.

spec: controller §2. Nobody else may have committed a region of the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from models.commit_check import check_commit
from models.line_packing import LINE_BYTES, Mode, Tie
from models.regions import (
    LINE_ADDRESS_BITS,
    SELECTOR_BITS,
    CommitCode,
    DeviceParams,
    RegionConfig,
    state_lines,
)
from neuron_fabric.capture import TensorSpec
from neuron_fabric.errors import CaptureError


def log2_up(value: int) -> int:
    """Exponent of the smallest power of two that is not below ``value``."""
    return max(value - 1, 0).bit_length()


@dataclass(frozen=True)
class Placement:
    """The address space of a device, to be filled with regions that share tie rule, threshold and
    number of workers."""

    params: DeviceParams
    workers: int
    tie: Tie
    threshold: int

    def area(self, mode: Mode, lines_log2: int) -> int:
        """Lines of the state area of a region of that size."""
        config = RegionConfig(0, 0, lines_log2, self.workers, mode)
        return state_lines(config, self.params.cnt_w)

    def check_counters(self, spec: TensorSpec, route: Mode) -> None:
        """CaptureError when counters that saturate would make a wrong sum of the codes of a tensor,
        whatever the mode of its region."""
        if route.bits and self.workers > self.params.cnt_max:
            raise CaptureError(
                f"tensor {spec.name!r} {list(spec.shape)}",
                f"by {route.name} a device with CNT_W={self.params.cnt_w} sums the codes of "
                f"{self.params.cnt_max} workers, not of {self.workers}",
                "use a device with a larger CNT_W or another route",
            )

    def check(self, spec: TensorSpec, mode: Mode, lines: int) -> None:
        """CaptureError when a tensor of that many lines does not fit into the empty device."""
        log2, room = log2_up(lines), self.params.mem_lines
        need = self.area(mode, log2)
        if need > room:
            raise CaptureError(
                f"tensor {spec.name!r} {list(spec.shape)}",
                f"by {mode.name} with {self.workers} workers it needs a state area of {need} "
                f"lines, the device's memory has {room}",
                f"use a device with MEM_LINES_LOG2 >= {log2_up(need)} or another route",
            )
        if log2 + SELECTOR_BITS > LINE_ADDRESS_BITS - 1:
            raise CaptureError(
                f"tensor {spec.name!r}", "no window is that large", "split the tensor"
            )

    def holds(self, modes: Sequence[Mode], logs: Sequence[int]) -> bool:
        """Whether regions of these modes and sizes fit side by side."""
        memory = sum(self.area(mode, log2) for mode, log2 in zip(modes, logs, strict=True))
        return len(modes) <= self.params.regions and memory <= self.params.mem_lines

    def place(self, modes: Sequence[Mode], logs: Sequence[int]) -> tuple[RegionConfig, ...]:
        """The descriptors of regions side by side, region 0 first; CaptureError when there is no
        room for their windows.

        The device accepts them in this order, and each of them again with fewer lines. Low-bit
        state areas come first: each is a whole number of records, so all of them stay aligned.
        Windows go up from the memory's end, the largest first, which keeps each naturally aligned.
        """
        bases = [0] * len(modes)
        at = self.params.mem_lines
        for index in sorted(range(len(modes)), key=lambda i: -logs[i]):
            size = 1 << (logs[index] + SELECTOR_BITS)
            bases[index] = -(-at // size) * size
            at = bases[index] + size
        if at > 1 << LINE_ADDRESS_BITS:
            raise CaptureError(
                "plan", "no room for the windows above the memory", "use less memory"
            )
        out: list[RegionConfig] = []
        state = 0
        for mode, log2, base in zip(modes, logs, bases, strict=True):
            config = RegionConfig(
                base=base * LINE_BYTES,
                state_base=state * LINE_BYTES,
                lines_log2=log2,
                workers=self.workers,
                mode=mode,
                tie_minus=self.tie == Tie.MINUS,
                threshold=self.threshold,
            )
            code = check_commit(self.params, config, out)
            if code != CommitCode.OK:
                raise AssertionError(f"region {len(out)} would be refused: {code.name}")
            out.append(config)
            state += self.area(mode, log2)
        return tuple(out)
