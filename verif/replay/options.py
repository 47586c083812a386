# SPDX-License-Identifier: Apache-2.0
"""Options of a replay: plain values that are passed to the simulator process as JSON."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from models.modes import Tie
from models.parameters import DeviceParams
from neuron_fabric.capture import Capture
from neuron_fabric.capture.layout import MAX_STEP
from neuron_fabric.errors import CaptureError
from verif.mem.memory_timing import USUAL_MEMORY, MemoryTiming
from verif.replay.plan import Sums
from verif.replay.tensor_lines import TERNARY_RATIO

EPOCH_LINES_LOG2 = 11
"""Lines per worker and route of a bulk epoch: 1 MiB of contributions with 8 workers."""
SLOW_LINES_LOG2 = 8
"""The same under Icarus, which simulates a large epoch in about a minute."""
MAX_STEPS = 10_000
"""Most steps of a synthetic replay, so that a typing error does not ask for 10^6."""
RTL_RANGES = {
    "REGIONS": (1, 16),
    "SLOTS": (4, 256),
    "MEM_LINES_LOG2": (8, 38),
    "RETRY_DEPTH": (22, 255),
    "REQ_CREDITS": (2, 255),
    "RWD_CREDITS": (2, 255),
}
"""Ranges that the RTL accepts at elaboration; the reference model accepts more."""
NonFinite = Literal["refuse", "fp32"]
Rounding = Literal["nearest", "stochastic"]
"""Rounding of G_INT4 and G_INT8 codes; stochastic: drawn from the seed."""


@dataclass(frozen=True)
class ReplayOptions:
    """Options of `nf replay` that change what is driven.

    Attributes:
        capture: Folder of the capture.
        steps: Texts for `parse_steps`; none for every step.
        routes: Texts ``NAME-GLOB=ROUTE`` in order of precedence.
        nonfinite: On NaN or infinity: refuse the replay, or send the tensor as FP32.
        ratio: Gate of G_TERNARY relative to the mean magnitude.
        rounding: Rounding of integer codes.
        sums: Regions that carry integer codes.
        tie: Result of a tied binary vote.
        threshold: Least net count of a ternary vote.
        seed: Seed of all random draws.
        parameters: RTL parameters that differ from the default, by RTL name.
        synthetic: Network whose gradients are drawn for ``workers``, instead of a capture.
        workers: Workers of a synthetic step.
        epoch_lines_log2: Bulk transport: limit of the size of an epoch; None: signal level.
        memory: Timing of device memory, for both transports.
    """

    capture: str = ""
    steps: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    nonfinite: NonFinite = "refuse"
    ratio: float = TERNARY_RATIO
    rounding: Rounding = "nearest"
    sums: Sums = "views"
    tie: Tie = Tie.PLUS
    threshold: int = 1
    seed: int = 1
    parameters: Mapping[str, int] = field(default_factory=dict)
    synthetic: str = ""
    workers: int = 8
    epoch_lines_log2: int | None = None
    memory: MemoryTiming = USUAL_MEMORY

    @property
    def bulk(self) -> bool:
        """Return whether the bulk transport is used."""
        return self.epoch_lines_log2 is not None

    @property
    def device(self) -> DeviceParams:
        """Return the parameters of the device: the defaults with ``parameters``.

        Raises:
            CaptureError: One is unknown or out of range.
        """
        lower = {name.lower(): value for name, value in self.parameters.items()}
        try:
            return DeviceParams(**lower)
        except (TypeError, ValueError) as error:
            raise CaptureError("--param", error, f"known are {', '.join(known())}") from None


def known() -> list[str]:
    """Return the names of the RTL parameters that can be set."""
    return list(DeviceParams().as_rtl())


def parse_parameters(texts: Sequence[str]) -> dict[str, int]:
    """Return RTL parameters by name from texts ``NAME=VALUE``.

    Raises:
        CaptureError: A name is unknown, or a value is malformed or one with which the RTL does not
            elaborate.
    """
    out: dict[str, int] = {}
    for text in texts:
        name, _, value = text.upper().partition("=")
        where = f"parameter {text!r}"
        if name not in known() or not re.fullmatch(r"[0-9]{1,9}", value):
            todo = f"write NAME=NUMBER with one of {', '.join(known())}"
            raise CaptureError(where, "not understood", todo)
        out[name] = int(value)
        first, last = RTL_RANGES.get(name, (0, out[name]))
        if not first <= out[name] <= last:
            what = f"the RTL takes {first} to {last}"
            raise CaptureError(where, what, "choose one of these")
    if out.get("SLOTS", 4).bit_count() != 1:
        what = "the RTL takes a power of two"
        raise CaptureError(f"parameter 'SLOTS={out['SLOTS']}'", what, "choose one")
    return out


def parse_steps(texts: Sequence[str], capture: Capture) -> tuple[int, ...]:
    """Return the steps of a capture that texts name, in the order of the texts.

    Args:
        texts: Texts like ``3``, ``3,60`` or ``0-100`` (the steps of the capture in that range);
            none for all steps.
        capture: Open capture.

    Raises:
        CaptureError: A text is malformed, or the capture has no such step.
    """
    chosen: dict[int, None] = {}
    ordered, place = sorted(capture.steps), {step: at for at, step in enumerate(capture.steps)}
    for part, first, last in _ranges(texts):
        hits = ordered[bisect_left(ordered, first) : bisect_right(ordered, last)]
        hits.sort(key=place.__getitem__)
        if not hits:
            have = ", ".join(map(str, capture.steps[:8])) + ", ..." * (len(capture.steps) > 8)
            raise CaptureError(capture.path, f"no step {part}", f"the capture has {have}")
        chosen |= dict.fromkeys(hits)
    return tuple(chosen) if texts else capture.steps


def any_steps(texts: Sequence[str]) -> tuple[int, ...]:
    """Return the steps of a synthetic replay that texts name; steps 0 to MAX_STEP exist.

    Raises:
        CaptureError: A text is malformed, or more than MAX_STEPS steps are named.
    """
    chosen: dict[int, None] = {}
    for part, first, last in _ranges(texts):
        if last > MAX_STEP or last < first:
            raise CaptureError(f"--steps {part!r}", "not understood", f"0 to {MAX_STEP}")
        chosen |= dict.fromkeys(range(first, min(last, first + MAX_STEPS) + 1))
        if len(chosen) > MAX_STEPS:
            what = f"names more than {MAX_STEPS:,} steps"
            raise CaptureError(f"--steps {part!r}", what, "replay them in several commands")
    return tuple(chosen)


def _ranges(texts: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield (text, first, last) of each step or range in texts like ``3,60`` or ``0-100``.

    Raises:
        CaptureError: A part is malformed.
    """
    for part in [p.strip() for text in texts for p in text.split(",")]:
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        if match is None:
            todo = "write numbers or ranges: 3,60 or 0-100"
            raise CaptureError(f"--steps {part!r}", "not understood", todo)
        yield part, int(match[1]), int(match[2] or match[1])
