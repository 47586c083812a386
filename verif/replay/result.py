# SPDX-License-Identifier: Apache-2.0
"""Result files of a replay: tensors made only from the lines that the device returned."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.integer_codes import BUCKET
from models.line_packing import LINE_BYTES
from neuron_fabric.capture.layout import TensorSpec
from neuron_fabric.capture.safetensors_io import TensorFileWriter, dtype_name
from neuron_fabric.errors import CaptureError
from neuron_fabric.lock import Busy, Lock
from neuron_fabric.output import check_output, in_the_way
from verif.replay.epoch import Key, extents
from verif.replay.gradient_source import elements_of
from verif.replay.job import Replay, StepPlan
from verif.replay.journal import Journal
from verif.replay.plan import Extent, Lines, RegionUse
from verif.replay.tensor_lines import (
    OUTPUTS,
    output_shape,
    outputs_from_lines,
    scale_of_each,
    sum_outputs,
    sums_of_lines,
)

FORMAT = "neuron-fabric-replay"


def write_step(
    path: Path,
    replay: Replay,
    one: StepPlan,
    returned: Mapping[Key, Journal],
    cycles: Mapping[str, int],
) -> None:
    """Write the result file of a step, whole or not at all.

    Args:
        path: Name of the file.
        replay: Replay of the step.
        one: Plan of the step.
        returned: Journal with the returned lines, by epoch.
        cycles: Cycles by simulator; all simulators returned the same lines.

    Raises:
        CaptureError: The file cannot be written.
    """
    specs = [
        TensorSpec(
            f"{spec.name}.{suffix}",
            output_shape(suffix, spec.shape),
            dtype_name(suffix, np.dtype(kind)),
        )
        for spec in replay.source.tensors
        for suffix, kind in OUTPUTS[one.routes[spec.name]].items()
    ]
    metadata = metadata_of(replay, one, cycles)
    try:
        with TensorFileWriter(path, specs, metadata, durable=True, zeros=True) as writer:
            for number in range(one.plan.epochs):
                lines = returned[one.step, number].lines((one.step, number))
                for extent, use, own in extents(one.plan.epoch(number), lines):
                    first, _ = elements_of(extent, use.route)
                    made = _outputs(replay, one.step, extent, use, own)
                    for suffix, values in made.items():
                        at = first * values.itemsize
                        writer.write(f"{extent.tensor.name}.{suffix}", values, at)
            for spec in replay.source.tensors:
                route = one.routes[spec.name]
                if route.bits and spec.elements:
                    u = replay.source.scales(one.step, spec, route)
                    writer.write(f"{spec.name}.scale", u)
    except OSError as error:
        todo = "make room or choose another --out, and replay again"
        if replay.options.bulk:
            todo = "make room, then go on with the same command and --resume (--merge: as it was)"
        raise CaptureError(path, error.strerror or error, todo) from None


def _outputs(
    replay: Replay, step: int, extent: Extent, use: RegionUse, lines: Lines
) -> dict[str, NDArray[Any]]:
    """Return the outputs of an extent from its returned lines, flat and by suffix; no "scale".

    Args:
        replay: The replay.
        step: Training step.
        extent: Part of a tensor.
        use: Use of the region that carried it.
        lines: Returned lines.
    """
    route, workers = use.route, replay.source.workers
    first, count = elements_of(extent, route)
    if not route.bits:
        planes = lines.planes if route.low_bit else None
        return outputs_from_lines(route, (count,), lines.result, planes)
    u = replay.source.scales(step, extent.tensor, route)
    each = scale_of_each(u[first // BUCKET :], count, first)
    return sum_outputs(
        sums_of_lines(route, use.config.mode, lines, workers), (count,), each, workers
    )


def metadata_of(replay: Replay, one: StepPlan, cycles: Mapping[str, int]) -> dict[str, str]:
    """Return the metadata of a step's result file, as texts.

    Args:
        replay: Replay of the step.
        one: Plan of the step.
        cycles: Cycles by simulator.
    """
    options, plan, epochs = replay.options, one.plan, one.epochs
    spread = f"{epochs[0]}-{epochs[-1]}" if len(epochs) > 1 else str(epochs[-1]) if epochs else ""
    return {
        "format": FORMAT,
        "version": "1",
        "model": replay.model,
        "step": str(one.step),
        "workers": str(plan.workers),
        "epoch": spread if options.bulk else ",".join(map(str, epochs)),
        "bytes_to_device": str(plan.writes * LINE_BYTES),
        "bytes_from_device": str(plan.reads * LINE_BYTES),
        "fp32_bytes_to_device": str(replay.fp32_lines * plan.workers * LINE_BYTES),
        "fp32_bytes_from_device": str(replay.fp32_lines * LINE_BYTES),
        "routes": json.dumps({name: mode.name for name, mode in one.routes.items()}),
        "simulator": ",".join(cycles),
        "cycles": ",".join(map(str, cycles.values())),
        "memory": str(options.memory),
        "tie": options.tie.name,
        "threshold": str(options.threshold),
        "ternary_ratio": repr(options.ratio),
        "rounding": options.rounding,
        "sums": options.sums,
        "seed": str(options.seed),
    }


def out_path(out: Path, step: int, steps: int) -> Path:
    """Return the name of a step's result file.

    It is `FILE.safetensors` itself if there is one step, else `FILE.step-000003.safetensors`.
    """
    if steps == 1:
        return out
    return out.with_name(f"{out.stem}.step-{step:06d}{out.suffix}")


def check_out(out: Path, capture: Path | None) -> None:
    """Check that results can be written to ``out``, before anything is driven.

    Args:
        out: Name given with --out.
        capture: Folder of the capture, in which no result may lie, or None.

    Raises:
        CaptureError: They cannot.
    """
    check_output(out, "--out")
    if capture is not None and out.parent.resolve().is_relative_to(capture.resolve()):
        raise CaptureError(out, "lies inside the capture", "choose another --out")


def check_steps(out: Path, steps: Sequence[int]) -> None:
    """Check that the result file of each step can be written.

    Raises:
        CaptureError: One cannot.
    """
    for step in steps:
        path = out_path(out, step, len(steps))
        what = in_the_way(path)
        if what:
            raise CaptureError(path, what, "choose another --out")


def hold(path: Path) -> Lock:
    """Lock a file that this replay writes, and return the lock.

    Raises:
        CaptureError: Another process holds the lock.
    """
    try:
        return Lock(path).acquire()
    except Busy as busy:
        todo = "wait until it has ended, or choose another --out"
        raise CaptureError(path, busy, todo) from None
