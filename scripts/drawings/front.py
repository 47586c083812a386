# SPDX-License-Identifier: Apache-2.0
"""Picture of the front page: one vote of 8 workers, from the shipped capture."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from models.line_packing import LINE_BITS, pack_binary
from models.votes import reduce_binary
from neuron_fabric.capture import Capture
from scripts.common.paths import CAPTURE
from scripts.drawings.sheet import BLUE, INK, RED, Box, Sheet
from scripts.figures import baseline

STEP, PARAMETER, FIRST, SHOWN = 60, "5.c2.weight", 32, 16
CYCLE_S, WORKER_S = 8.0, 0.6  # length of the animation; time between two workers
TOP, ROW = 84, 26  # height of the first worker's row and of each row, in pixels
LATENCY = 300  # of memory, in clocks
_NETWORK = "ResNet-18 (CIFAR stem, 10 classes)"
_STYLE = f"""<style>
.line {{ animation: line {CYCLE_S}s infinite }}
.vote {{ animation: vote {CYCLE_S}s infinite }}
@keyframes line {{ 0%, 5% {{ transform: none; opacity: 1 }} 14% {{ transform: translateX(170px);
  opacity: 0 }} 94% {{ transform: none; opacity: 0 }} 100% {{ transform: none; opacity: 1 }} }}
@keyframes vote {{ 0%, 62% {{ opacity: .12 }} 72%, 96% {{ opacity: 1 }} 100% {{ opacity: .12 }} }}
@media (prefers-reduced-motion: reduce) {{ .line, .vote {{ animation: none }} }}
</style>"""


def gradients() -> npt.NDArray[np.float32]:
    """Return the captured gradients of the parameter, a row for each worker."""
    return Capture.open(CAPTURE).load(STEP)[PARAMETER].reshape(8, -1)


def front() -> Sheet:
    """Draw gradients, packed lines, the device with its counts, the vote and the true mean."""
    sheet = Sheet(
        "Gradients of 8 workers, packed to one bit an element, are counted by the device as their "
        "lines pass; the vote is compared with the true mean",
        height=420,
    )
    every = gradients()
    shown = every[:, FIRST : FIRST + SHOWN]
    lines = np.stack([pack_binary(one[:LINE_BITS]) for one in every])
    negative = _bits(lines)
    [voted] = _bits(reduce_binary(lines).vote)
    mean = shown.mean(axis=0)
    same = int(np.sum(voted == (mean < 0)))
    largest = float(np.abs(shown).max())
    sheet.parts.append(_STYLE)
    for x, head, note in (
        (30, "gradients of 8 workers", f"{PARAMETER}, 16 elements, step {STEP}"),
        (350, "packed lines", f"1 bit an element, {LINE_BITS} a line"),
        (626, "device", "counts as lines pass"),
        (790, "vote", "1 line back to everyone"),
    ):
        sheet.text(x, 40, head, "head")
        sheet.text(x, 60, note, "pale")
    sheet.rect(Box(612, 74, 152, 226), "#eef3fa", f'rx="8" stroke="{INK}" stroke-width="1.5"')
    for worker in range(8):
        y = TOP + ROW * worker
        for column, value in enumerate(shown[worker]):
            strength = 0.15 + 0.85 * abs(float(value)) / largest
            _cell(sheet, 30 + 17 * column, y, 15, bool(value < 0), strength)
        delay = WORKER_S * worker
        sheet.parts.append(f'<g class="line" style="animation-delay:{delay:.1f}s">')
        for column, bit in enumerate(negative[worker]):
            _cell(sheet, 350 + 12 * column, y, 10, bool(bit))
        sheet.parts.append("</g>")
    for column, count in enumerate(negative.sum(axis=0)):
        high = 20.0 * int(count)
        sheet.rect(Box(624 + 8.2 * column, 284 - high, 6.6, high), RED, 'class="vote"')
    half = 284 - 20 * 4
    sheet.line(620, half, 758, half, 'stroke-dasharray="3"')
    sheet.text(622, 94, "count of minus signs", "pale")
    sheet.parts.append('<g class="vote">')
    for column, bit in enumerate(voted):
        _cell(sheet, 790 + 9 * column, 150, 8, bool(bit))
    sheet.parts.append("</g>")
    for column, value in enumerate(mean):
        _cell(sheet, 790 + 9 * column, 210, 8, bool(value < 0))
    sheet.text(790, 142, "majority of 8 signs", "pale")
    sheet.text(790, 202, "sign of the true mean", "pale")
    sheet.text(790, 244, f"{same} of {SHOWN} the same", "pale")
    for row, text in enumerate(_figures()):
        sheet.text(30, 340 + 26 * row, text)
    return sheet


def _figures() -> list[str]:
    """Return the lines of numbers below the drawing, from the accepted figures."""
    known = baseline.read()
    vote = f"{_NETWORK}, G_BINARY vote, head in FP32: payload both ways, % of FP32"
    share = known["traffic"][vote]
    timing, alone = known["timing"], f"one at a time at {LATENCY}: clocks"
    extra = [
        timing[f"G_BINARY, contribution, {which}, {alone} over plain memory"]
        for which in ("second of 8 workers", "last of 64 workers")
    ]
    plain = timing[f"plain memory, contribution, second of 8 workers, {alone}"]
    return [
        f"Bytes: {share:.2f} % of FP32 both ways (ResNet-18 for CIFAR-10, 8 workers, scales and "
        "head in FP32 included).",
        f"Clocks: {extra[0]:g} to {extra[1]:g} more than plain memory for a contribution that "
        "misses (2nd of 8 to last of 64 workers),",
        f"which takes {plain:.0f} at a memory latency of {LATENCY}. Set-up: docs/measurements.md.",
    ]


def _bits(lines: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the bits of the shown elements, a row for each line; 1 is minus."""
    bits = np.unpackbits(lines.reshape(len(lines), -1), axis=1, bitorder="little")
    return bits[:, FIRST : FIRST + SHOWN]


def _cell(
    sheet: Sheet, x: float, y: float, size: int, negative: bool, strength: float = 1.0
) -> None:
    opacity = f'fill-opacity="{strength:.2f}"'
    sheet.rect(Box(x, y, size, size), RED if negative else BLUE, opacity)
