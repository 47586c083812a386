# SPDX-License-Identifier: Apache-2.0
"""Lines that came back against lines that the reducers expect; the first difference in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.formats import LINE_BYTES, U8, Mode, elements_per_line, lines_to_codes, unpack_binary
from models.reducers import planes_to_counts
from verif.replay.prepare import Lines, StepWork, TensorWork

SHOWN_WORKERS = 8


@dataclass(frozen=True)
class Verdict:
    """Lines compared, lines that differ, and the first difference (empty: none)."""

    lines: int
    wrong: int
    first: str = ""


def compare(work: StepWork, got: Mapping[str, Lines]) -> Verdict:
    """Judge a step. A tensor that is missing, or has another size, differs in every line."""
    lines = wrong = 0
    first = ""
    for name, tensor in work.tensors.items():
        lines += tensor.lines
        own, want = got.get(name), tensor.expected
        if own is None or own.result.shape != want.result.shape:
            wrong += tensor.lines
            first = first or f"step {work.step} tensor {name}: nothing was read back"
            continue
        if own.planes.shape != want.planes.shape:
            wrong += tensor.lines
            first = first or f"step {work.step} tensor {name}: count planes are missing"
            continue
        differs = (own.result != want.result).any(axis=1)
        differs |= (own.planes != want.planes).any(axis=(0, 2))
        if differs.any():
            wrong += int(differs.sum())
            first = first or describe(work.step, tensor, own, int(np.flatnonzero(differs)[0]))
    return Verdict(lines, wrong, first)


def describe(step: int, tensor: TensorWork, got: Lines, line: int, first_line: int = 0) -> str:
    """One line: tensor, line, element, what the device gave, what it should be, what was sent.

    ``tensor`` and ``got`` may be a stretch that begins with line ``first_line`` of the tensor.
    """
    want = tensor.expected
    what, element, values = first_value(tensor.mode, got, want, line)
    flat = (first_line + line) * elements_per_line(tensor.mode) + element
    spec = tensor.spec
    if flat < spec.elements:
        index = [int(i) for i in np.unravel_index(flat, spec.shape)] if spec.shape else []
        place = f"element {element} (index {index})"
    else:
        place = f"element {element} (padding)"
    workers = [f"{w}: {_code(tensor, w, line, element)}" for w in range(len(tensor.sent))]
    more = ", ..." if len(workers) > SHOWN_WORKERS else ""
    return (
        f"step {step} tensor {spec.name} {tensor.mode.name} "
        f"line {first_line + line} {place}: {what} is "
        f"{values[0]}, the reducers say {values[1]}; workers sent "
        f"{', '.join(workers[:SHOWN_WORKERS])}{more}"
    )


def first_value(mode: Mode, got: Lines, want: Lines, line: int) -> tuple[str, int, list[str]]:
    """(what, element, [device, reducers]) of the first element of a line that differs."""
    pair = (got.result[line], want.result[line])
    if (pair[0] != pair[1]).any():
        per_line = elements_per_line(mode)
        texts = [_values(mode, one) for one in pair]
        element = next(e for e in range(per_line) if texts[0][e] != texts[1][e])
        return ("sum" if mode == Mode.FP32 else "vote"), element, [t[element] for t in texts]
    counts = [planes_to_counts(one.planes[:, line : line + 1])[0] for one in (got, want)]
    column = int(np.flatnonzero(counts[0] != counts[1])[0])
    values = [str(int(c[column])) for c in counts]
    if mode == Mode.G_TERNARY:
        return ("count of -1" if column & 1 else "count of +1"), column // 2, values
    return "count of non-negative", column, values


def _values(mode: Mode, line: U8) -> list[str]:
    """Every element of a line as text, exact."""
    if mode == Mode.G_BINARY:
        return ["+1" if value > 0 else "-1" for value in unpack_binary(line)]
    if mode == Mode.G_TERNARY:
        return [("0", "illegal 01", "+1", "-1")[code] for code in lines_to_codes(line)]
    words = np.frombuffer(line.tobytes(), dtype="<u4")
    with np.errstate(all="ignore"):
        return [f"{word:08X}h ({value:.9g})" for word, value in zip(words, words.view("<f4"))]


def _code(tensor: TensorWork, worker: int, line: int, element: int) -> str:
    return _values(tensor.mode, tensor.sent[worker, line].reshape(1, LINE_BYTES))[element]
