# SPDX-License-Identifier: Apache-2.0
"""Tensors of the capture spec from journals of returned lines, a round at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from models.formats import LINE_BYTES, Mode
from models.regions import planes_kept
from neuron_fabric.capture.reader import TensorSpec
from neuron_fabric.capture.safetensors_io import StretchWriter
from neuron_fabric.errors import CaptureError
from verif.replay.bulk.journal import Journal
from verif.replay.bulk.source import elements_of
from verif.replay.stream_plan import StreamPlan
from verif.replay.tensors import outputs_from_lines

_TYPES = {"vote": np.int8, "plus": np.uint8, "minus": np.uint8, "sum": np.float32}
_SUFFIXES = {
    Mode.G_BINARY: ("vote", "plus"),
    Mode.G_TERNARY: ("vote", "plus", "minus"),
    Mode.FP32: ("sum",),
}


def write_step(
    path: Path,
    tensors: tuple[TensorSpec, ...],
    routes: Mapping[str, Mode],
    plan: StreamPlan,
    step: int,
    journals: Mapping[int, Journal],
    metadata: Mapping[str, str],
) -> None:
    """One result file; ``journals`` by round. It appears whole or not at all; CaptureError."""
    entries = {
        f"{spec.name}.{suffix}": (np.dtype(_TYPES[suffix]), spec.shape)
        for spec in tensors
        for suffix in _SUFFIXES[routes[spec.name]]
    }
    try:
        with StretchWriter(path, entries, metadata) as writer:
            for number in range(plan.rounds):
                _write_round(writer, plan, number, journals[number], step)
    except OSError as error:
        todo = "make room, then go on with the same command and --resume (--merge: as it was)"
        raise CaptureError(path, error.strerror or error, todo) from None


def _write_round(
    writer: StretchWriter, plan: StreamPlan, number: int, journal: Journal, step: int
) -> None:
    lines = journal.lines((step, number))
    at = 0
    for share in plan.round(number):
        mode = share.config.mode
        count = 1 + (planes_kept(plan.workers, plan.params.cnt_w) if mode.low_bit else 0)
        size = count * share.lines
        got = lines[at : at + size].reshape(count, share.lines, LINE_BYTES)
        at += size
        start = 0
        for extent in share.extents:
            part = got[:, start : start + extent.lines]
            first, elements = elements_of(extent, mode)
            planes = part[1:] if mode.low_bit else None
            made = outputs_from_lines(mode, (elements,), part[0], planes)
            for suffix, values in made.items():
                writer.write(f"{extent.tensor.name}.{suffix}", first, values)
            start += extent.lines
