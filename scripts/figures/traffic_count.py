# SPDX-License-Identifier: Apache-2.0
"""Counts what a training step moves between one worker and the device, from formats alone.

spec: controller §1 and §2, second edition §7 and §10 (modes, views); link spec §4-§6 (slots);
runtime §3.1 (scales of a training). A tensor begins with a new line. Each worker writes every line
once and reads its result once; so it does with the runtime's sidecar, the FP32 lines that hold the
scale and the presence of every tensor in a low-bit mode.
`COUNTED` says what is counted, and what is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.line_packing import LINE_BYTES, Mode, elements_per_line
from models.parameters import DeviceParams
from models.quantize import buckets
from models.regions import RegionConfig, planes_kept, sum_selectors
from scripts.figures.network_shapes import Network, Role

SLOT_BYTES = 16
SLOTS_A_LINE = LINE_BYTES // SLOT_BYTES
SLOTS_A_FLIT = 4
FRAMING_BYTES = 4
"""Of a flit: 2 of Protocol ID, 2 of CRC."""
FP32_BYTES = 4

COUNTED: tuple[tuple[str, str], ...] = (
    (
        "payload",
        "64 bytes a line written or read: codes and padding, results, planes, sums, and the lines "
        "of scales and of largest |x| below",
    ),
    (
        "payload-only, one-way",
        "what a worker writes (up), without headers and framing; what it reads (down) is not in it",
    ),
    (
        "header",
        "a slot of 16 bytes a write, read request or read response; half a slot a completion",
    ),
    ("framing", "4 bytes (Protocol ID, CRC) for each four slots; on the wire: all three"),
    (
        "scales",
        "all low-bit modes: each worker's scale and presence of each tensor, FP32, as the runtime "
        "sends them: a line of scales and a line of presence for 16 tensors, written once by each "
        "worker, and their sums read once; all tensors of a step as one DDP bucket",
    ),
    (
        "largest |x|",
        "G_INT4, G_INT8, besides: that of each 1,024 elements, FP32, as if each worker wrote its "
        "own to plain memory and read those of all (the runtime's ranks agree on them by an "
        "all-reduce that does not pass the device)",
    ),
    (
        "G_TERN5",
        "five ternary elements a byte, in a device that is built with TERN5 = 1; no route of the "
        "runtime, its scales are counted as those of the others",
    ),
    (
        "not counted",
        "slots that stay empty, control flits, retry, registers (`nf replay` prints the flits of a "
        "replay, in which there are no scales); of scales and presence, up to 2 lines more each "
        "way for each further DDP bucket; steps and samples that a training takes in FP32",
    ),
    (
        "ring FP32",
        "ring all-reduce, payload alone: 2 (W - 1) / W values an element sent by a worker, and as "
        "many received",
    ),
)
POLICIES: dict[str, frozenset[Role]] = {
    "all low-bit": frozenset(),
    "head in FP32": frozenset({Role.HEAD}),
    "head, norms and biases in FP32": frozenset({Role.HEAD, Role.NORM, Role.BIAS}),
}
"""Tensors that go by FP32 and are read as its sum, whatever the mode of the others."""
SIDECAR_ROWS = 2
"""Of the runtime's sidecar: scales, presence; each begins with a new line."""


@dataclass(frozen=True)
class Choice:
    """A mode, and how its results are read: ``lines`` lines for each line written."""

    mode: Mode
    view: str
    lines: int


def choices(workers: int) -> tuple[Choice, ...]:
    """Every mode and read view that a region of so many workers has; FP32 sums first."""
    out = [Choice(Mode.FP32, "sum", 1), Choice(Mode.FP32, "every worker's line", workers)]
    out.append(Choice(Mode.IDENTITY, "every worker's line", workers))
    for mode in (Mode.G_BINARY, Mode.G_TERNARY, Mode.G_TERN5):
        planes = planes_kept(mode.counts_to(workers), DeviceParams().cnt_w)
        out += [Choice(mode, "vote", 1), Choice(mode, "planes", planes)]
    planes = planes_kept(workers, DeviceParams().cnt_w)
    for mode in (Mode.G_INT4, Mode.G_INT8):
        selectors = sum_selectors(RegionConfig(0, 0, 0, workers, mode))
        wide = sum(selector < 32 for selector in selectors)
        if len(selectors) > wide:
            out.append(Choice(mode, "SUM8", len(selectors) - wide))
        out += [Choice(mode, "SUM16", wide), Choice(mode, "planes", planes)]
    return tuple(out)


@dataclass(frozen=True)
class Way:
    """Bytes of one worker and step, one way."""

    payload: int
    headers: float
    framing: float

    @property
    def wire(self) -> float:
        """All that is counted."""
        return self.payload + self.headers + self.framing


@dataclass(frozen=True)
class Traffic:
    """Lines that one worker writes and reads in a step, and the bytes ``up`` (to the device) and
    ``down`` that they take."""

    elements: int
    written: int
    read: int

    @property
    def up(self) -> Way:
        """Writes with their data, and read requests."""
        return _way(self.written, self.written + self.read)

    @property
    def down(self) -> Way:
        """Read responses with their data, and completions, two of which fit into a slot."""
        return _way(self.read, self.read + self.written / 2)

    @property
    def payload(self) -> int:
        """Both ways."""
        return self.up.payload + self.down.payload

    @property
    def wire(self) -> float:
        """Both ways."""
        return self.up.wire + self.down.wire


def _way(lines: int, headers: float) -> Way:
    slots = lines * SLOTS_A_LINE + headers
    framing = FRAMING_BYTES * slots / SLOTS_A_FLIT
    return Way(lines * LINE_BYTES, headers * SLOT_BYTES, framing)


def count(network: Network, choice: Choice, kept: frozenset[Role], workers: int) -> Traffic:
    """One worker's step; tensors of the roles ``kept`` go by FP32 and are read as its sum, and have
    no scale."""
    written = read = scaled = maxima = 0
    for tensor in network.tensors:
        as_sum = tensor.role in kept
        mode = Mode.FP32 if as_sum or choice.mode == Mode.IDENTITY else choice.mode
        lines = -(-tensor.elements // elements_per_line(mode))
        written += lines
        read += lines * (1 if as_sum else choice.lines)
        scaled += mode.low_bit
        maxima += buckets(tensor.elements) if mode.bits else 0
    sidecar = SIDECAR_ROWS * _lines_of_fp32(scaled)
    of_maxima = _lines_of_fp32(maxima)
    written += sidecar + of_maxima
    read += sidecar + of_maxima * workers
    return Traffic(network.elements, written, read)


def _lines_of_fp32(numbers: int) -> int:
    return -(-numbers * FP32_BYTES // LINE_BYTES)


def ring_bytes(elements: int, workers: int) -> float:
    """Payload that a worker sends and receives in a ring all-reduce of FP32, both together."""
    return 2 * 2 * (workers - 1) / workers * FP32_BYTES * elements
