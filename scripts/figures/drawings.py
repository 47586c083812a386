# SPDX-License-Identifier: Apache-2.0
"""Drawings of the documents, each made from captured gradients, models or accepted figures.

    python -m scripts.figures.drawings            write the drawings
    python -m scripts.figures.drawings --check    check them and the length of README.md

`docs/front.svg` shows one vote of 8 workers: 16 elements of one parameter of the shipped capture,
packed by the line format and voted on by the reference model. `docs/line-formats.svg` shows which
bits of a line an element changes, found by packing lines that differ in that element alone.
`nf check` runs the second command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from models.line_packing import (
    LINE_BITS,
    TRITS_A_BYTE,
    Mode,
    elements_per_line,
    pack_binary,
    pack_fp32,
    pack_int,
    pack_tern5,
    pack_ternary,
)
from models.reducers import reduce_binary
from neuron_fabric import output
from neuron_fabric.capture import Capture
from neuron_fabric.errors import say
from scripts.common.paths import ROOT
from scripts.figures import baseline

FRONT = "docs/front.svg"
README_LINES = 200
CAPTURE = ROOT / "captures" / "digits-resnet-8x"
STEP, PARAMETER, FIRST, SHOWN = 60, "5.c2.weight", 32, 16
PLUS, MINUS, INK, PALE = "#2563b8", "#c8553d", "#1d2b3f", "#5b6b82"
CYCLE_S, WORKER_S = 8.0, 0.6  # length of the animation; time between two workers
TOP, ROW = 84, 26  # height of the first worker's row and of each row, in pixels
BITS = 32  # of a line, in `docs/line-formats.svg`
Values = npt.NDArray[np.float32]
LATENCY = 300  # of memory, in clocks
_NETWORK = "ResNet-18 (CIFAR stem, 10 classes)"
_STYLE = f"""<style>
text {{ font: 14px Helvetica, Arial, sans-serif; fill: {INK} }}
.pale {{ fill: {PALE}; font-size: 12px }} .head {{ font-weight: bold }}
.count {{ font-size: 11px; text-anchor: middle }}
.line {{ animation: line {CYCLE_S}s infinite }}
.vote {{ animation: vote {CYCLE_S}s infinite }}
@keyframes line {{ 0%, 5% {{ transform: none; opacity: 1 }} 14% {{ transform: translateX(170px);
  opacity: 0 }} 94% {{ transform: none; opacity: 0 }} 100% {{ transform: none; opacity: 1 }} }}
@keyframes vote {{ 0%, 62% {{ opacity: .12 }} 72%, 96% {{ opacity: 1 }} 100% {{ opacity: .12 }} }}
@media (prefers-reduced-motion: reduce) {{ .line, .vote {{ animation: none }} }}
</style>"""


def front() -> str:
    """Return the SVG: gradients, packed lines, the device with its counts, vote and true mean."""
    gradients = Capture.open(CAPTURE).load(STEP)[PARAMETER].reshape(8, -1)
    shown = gradients[:, FIRST : FIRST + SHOWN]
    lines = np.stack([pack_binary(one[:LINE_BITS]) for one in gradients])
    negative = _bits(lines)
    [voted] = _bits(reduce_binary(lines).vote)
    mean = shown.mean(axis=0)
    same = int(np.sum(voted == (mean < 0)))
    largest = float(np.abs(shown).max())
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 420" role="img" '
        'aria-label="Gradients of 8 workers, packed to one bit an element, are counted by the '
        'device as their lines pass; the vote is compared with the true mean">',
        _STYLE,
        '<rect width="960" height="420" rx="10" fill="#ffffff"/>',
        _text(30, 40, "gradients of 8 workers", "head"),
        _text(30, 60, f"{PARAMETER}, 16 elements, step {STEP}", "pale"),
        _text(350, 40, "packed lines", "head"),
        _text(350, 60, f"1 bit an element, {LINE_BITS} a line of 64 bytes", "pale"),
        _text(626, 40, "device", "head"),
        _text(626, 60, "counts as lines pass", "pale"),
        _text(790, 40, "vote", "head"),
        _text(790, 60, "1 line back to everyone", "pale"),
        '<rect x="612" y="74" width="152" height="226" rx="8" fill="#eef3fa" '
        f'stroke="{INK}" stroke-width="1.5"/>',
    ]
    for worker in range(8):
        y = TOP + ROW * worker
        for column, value in enumerate(shown[worker]):
            strength = 0.15 + 0.85 * abs(float(value)) / largest
            parts.append(_cell(30 + 17 * column, y, 15, bool(value < 0), strength))
        delay = WORKER_S * worker
        parts.append(f'<g class="line" style="animation-delay:{delay:.1f}s">')
        parts += [_cell(350 + 12 * i, y, 10, bool(bit)) for i, bit in enumerate(negative[worker])]
        parts.append("</g>")
    for column, count in enumerate(negative.sum(axis=0)):
        x = 624 + 8.2 * column
        height = 20.0 * int(count)
        parts.append(
            f'<rect x="{x:.1f}" y="{284 - height:.1f}" width="6.6" height="{height:.1f}" '
            f'fill="{MINUS}" class="vote"/>'
        )
    half = 284 - 20 * 4
    parts.append(
        f'<line x1="620" y1="{half}" x2="758" y2="{half}" stroke="{INK}" stroke-dasharray="3"/>'
    )
    parts.append(_text(622, 94, "count of minus signs", "pale"))
    parts.append('<g class="vote">')
    parts += [_cell(790 + 9 * i, 150, 8, bool(bit)) for i, bit in enumerate(voted)]
    parts.append("</g>")
    parts += [_cell(790 + 9 * i, 210, 8, bool(value < 0)) for i, value in enumerate(mean)]
    parts.append(_text(790, 142, "majority of 8 signs", "pale"))
    parts.append(_text(790, 202, "sign of the true mean", "pale"))
    parts.append(_text(790, 244, f"{same} of {SHOWN} the same", "pale"))
    parts += [_text(30, 340 + 26 * row, line) for row, line in enumerate(_figures())]
    return "\n".join([*parts, "</svg>", ""])


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


def _cell(x: float, y: float, size: int, negative: bool, strength: float = 1.0) -> str:
    fill = MINUS if negative else PLUS
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{size}" height="{size}" fill="{fill}" '
        f'fill-opacity="{strength:.2f}"/>'
    )


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"' + (f' class="{kind}"' if kind else "") + f">{words}</text>"


_FLOATS = np.random.default_rng(1).standard_normal(64).astype(np.float32)
# How each mode packs values, and values of an element that change each of its bits.
_FORMATS: dict[Mode, tuple[Callable[[Values], npt.NDArray[np.uint8]], Values]] = {
    Mode.G_BINARY: (pack_binary, np.array([-1], np.float32)),
    Mode.G_TERNARY: (partial(pack_ternary, threshold=0.5), np.array([-1], np.float32)),
    Mode.G_TERN5: (partial(pack_tern5, threshold=0.5), np.array([-1, 1], np.float32)),
    Mode.G_INT4: (
        lambda x: pack_int(x.astype(np.int16), Mode.G_INT4, signed=False),
        np.array([15], np.float32),
    ),
    Mode.G_INT8: (
        lambda x: pack_int(x.astype(np.int16), Mode.G_INT8, signed=False),
        np.array([255], np.float32),
    ),
    Mode.FP32: (pack_fp32, _FLOATS),
}


def _owners(mode: Mode) -> list[int]:
    """Return the element that each of the first `BITS` bits of a line belongs to.

    In G_TERN5 five elements share a byte: its bits belong to the first of them.
    """
    pack, values = _FORMATS[mode]
    share = TRITS_A_BYTE if mode is Mode.G_TERN5 else 1
    empty = np.zeros(elements_per_line(mode), np.float32)
    owner = [-1] * BITS
    for element in range(BITS):
        for value in values if element < len(empty) else ():
            line = empty.copy()
            line[element] = value
            changed = np.unpackbits(pack(line) ^ pack(empty), bitorder="little")[:BITS]
            for bit in np.flatnonzero(changed):
                owner[bit] = element - element % share
    return owner


def line_formats() -> str:
    """Return the SVG: the first bytes of a line in each mode, coloured by element."""
    height = 70 + 62 * len(_FORMATS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {height}" role="img" '
        'aria-label="Which bits of a line an element takes in each mode">',
        _STYLE,
        f'<rect width="960" height="{height}" rx="10" fill="#ffffff"/>',
        _text(
            30,
            32,
            f"mode (elements a line); first {BITS // 8} of 64 bytes, bit 0 of byte 0 at the left",
            "head",
        ),
    ]
    for row, mode in enumerate(_FORMATS):
        y = 56 + 62 * row
        count = elements_per_line(mode)
        parts.append(_text(30, y + 12, f"{mode.name} ({count})", "head"))
        owner = _owners(mode)
        starts = [bit for bit in range(BITS) if bit == 0 or owner[bit] != owner[bit - 1]]
        for start, end in zip(starts, [*starts[1:], BITS], strict=True):
            x, width = 190 + 23 * start, 23 * (end - start) - 2
            shared = mode is Mode.G_TERN5
            label = f"{owner[start]} to {owner[start] + 4}" if shared else str(owner[start])
            fill = PLUS if len(starts) == 1 or starts.index(start) % 2 == 0 else PALE
            parts.append(
                f'<rect x="{x}" y="{y}" width="{width}" height="18" rx="2" fill="{fill}"/>'
            )
            parts.append(f'<text x="{x + width / 2:g}" y="{y + 32}" class="count">{label}</text>')
    return "\n".join([*parts, "</svg>", ""])


DRAWINGS = {FRONT: front, "docs/line-formats.svg": line_formats}


def problems(root: Path = ROOT) -> list[str]:
    """Return a line for each rule of the front page that is broken and each stale drawing."""
    lines = (root / "README.md").read_text(encoding="utf-8").splitlines()
    out = []
    if len(lines) > README_LINES:
        out.append(f"README.md has {len(lines)} lines: move some to docs/ (at most {README_LINES})")
    if not any(f"({FRONT})" in line for line in lines[:20]):
        out.append(f"README.md does not show {FRONT} in its first 20 lines")
    for name, draw in DRAWINGS.items():
        file = root / name
        if not file.is_file() or file.read_text(encoding="utf-8") != draw():
            out.append(f"{name} is stale: run `python -m scripts.figures.drawings`")
    return out


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        say(*(found := problems()))
        sys.exit(bool(found))
    for name, draw in DRAWINGS.items():
        output.write_text(ROOT / name, draw())
        say(f"wrote {name}")
