# SPDX-License-Identifier: Apache-2.0
"""Cosine and error of each route with respect to the true mean, on the gradients of a capture.

    python -m examples.route_errors captures/digits-resnet-8x

The reference models reduce every tensor that the default routes send by a low-bit mode. A vote and
a count say nothing about magnitudes: each is scaled by the number that fits that tensor best, which
no host knows, so the rows are kind to them. Sums of integer codes need no such help. NMSE is the
squared error over the square of the mean.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.int_sums import reduce_int, sum8_lines, sum16_lines
from models.line_packing import F32, unpack_binary, unpack_ternary
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import planes_kept
from models.votes import reduce_binary, reduce_ternary
from neuron_fabric.capture import Capture
from neuron_fabric.errors import CaptureError, say, settle_output
from scripts.common.arguments import positive
from verif.replay.routing import default_routes
from verif.replay.tensor_lines import (
    mean_of_sums,
    pack_shared,
    pack_tensor,
    scale_of_each,
    shared_scales,
)

F64 = NDArray[np.float64]
DRAWS = 5
"""Draws of stochastic rounding; the rows are means over them."""

Estimate = Callable[[F32, np.random.Generator], F64]
"""(float32[W, elements], draws) -> what the host gets for the mean of a tensor."""


def _fitted(estimate: F64, mean: F64) -> F64:
    """Return the estimate times the factor for which its squared error to the mean is least."""
    size = float(estimate @ estimate)
    return estimate * (float(estimate @ mean) / size if size else 0.0)


def _votes(mode: Mode, counts: bool) -> Estimate:
    def estimate(x: F32, _: np.random.Generator) -> F64:
        lines, elements = np.stack([pack_tensor(one, mode) for one in x]), x.shape[1]
        got: np.ndarray
        if mode == Mode.G_BINARY:
            low = reduce_binary(lines)
            net = low.counts * 2.0 - len(x)
            got = net.reshape(-1) if counts else unpack_binary(low.vote).astype(float)
        else:
            low = reduce_ternary(lines)
            net = low.counts[:, 0::2].astype(float) - low.counts[:, 1::2]
            got = net.reshape(-1) if counts else unpack_ternary(low.vote).astype(float)
        return _fitted(got[:elements].astype(np.float64), x.mean(axis=0, dtype=np.float64))

    return estimate


def _codes(mode: Mode, stochastic: bool) -> Estimate:
    def estimate(x: F32, rng: np.random.Generator) -> F64:
        u = shared_scales(x, mode)
        lines = pack_shared(x, mode, u, rng.random(x.shape) if stochastic else None)
        sums = reduce_int(lines, mode).sums.reshape(-1)[: x.shape[1]]
        return mean_of_sums(sums, scale_of_each(u, x.shape[1]), len(x)).astype(np.float64)

    return estimate


def _one_line(_workers: int) -> int:
    return 1


def _count_planes(workers: int) -> int:
    return planes_kept(workers, DeviceParams().cnt_w)


def _sum_lines(mode: Mode) -> Callable[[int], int]:
    return lambda workers: sum8_lines(mode, workers) or sum16_lines(mode)


@dataclass(frozen=True)
class Method:
    """Route with what a host reads of its result: a row of the table.

    Attributes:
        bits: Bits that a worker sends per element.
        lines: Lines read per line written, as a function of the number of workers.
        estimate: Function that returns the host's estimate of the mean.
        draws: Whether the estimate uses random numbers; the row is then a mean over DRAWS
            estimates.
    """

    bits: int
    lines: Callable[[int], int]
    estimate: Estimate
    draws: bool = False


METHODS: Mapping[str, Method] = {
    "G_BINARY vote": Method(1, _one_line, _votes(Mode.G_BINARY, counts=False)),
    "G_BINARY counts": Method(1, _count_planes, _votes(Mode.G_BINARY, counts=True)),
    "G_TERNARY vote": Method(2, _one_line, _votes(Mode.G_TERNARY, counts=False)),
    "G_TERNARY net counts": Method(2, _count_planes, _votes(Mode.G_TERNARY, counts=True)),
} | {
    f"{mode.name} {rounding}": Method(
        mode.bits, _sum_lines(mode), _codes(mode, stochastic), draws=stochastic
    )
    for mode in (Mode.G_INT4, Mode.G_INT8)
    for rounding, stochastic in (("nearest", False), ("stochastic", True))
}


def judge(estimate: F64, mean: F64) -> tuple[float, float]:
    """Return (cosine, NMSE) of an estimate of the mean; NaN if the mean is zero everywhere."""
    square, across = float(mean @ mean), float(np.linalg.norm(estimate) * np.linalg.norm(mean))
    if not square:
        return math.nan, math.nan
    error = float(((estimate - mean) ** 2).sum()) / square
    return float(estimate @ mean) / across if across else 0.0, error


def step_of(
    gradients: Mapping[str, F32], low: list[str], seed: int
) -> dict[str, tuple[float, float]]:
    """Return (cosine, NMSE) of every method by name, over the tensors ``low`` of one step.

    The tensors are joined to one vector; ``gradients`` are float32[W, *shape] by name.
    """
    flat = [gradients[name].reshape(len(gradients[name]), -1) for name in low]
    mean = np.concatenate([x.mean(axis=0, dtype=np.float64) for x in flat])
    out = {}
    for name, method in METHODS.items():
        rng = np.random.default_rng(seed)
        judged = [
            judge(np.concatenate([method.estimate(x, rng) for x in flat]), mean)
            for _ in range(DRAWS if method.draws else 1)
        ]
        cosine, error = (float(np.mean(values)) for values in zip(*judged, strict=True))
        out[name] = cosine, error
    return out


def gradients_of(capture: Capture, step: int, low: list[str]) -> dict[str, F32]:
    """Return the gradients of the tensors ``low`` in a step, float32[W, *shape] by name.

    Raises:
        CaptureError: An element is NaN or infinite, and so has no low-bit code.
    """
    gradients = capture.load(step)
    for name in low:
        x = gradients[name].reshape(capture.world_size, -1)
        bad = np.argwhere(~np.isfinite(x))
        if bad.size:
            worker, element = bad[0]
            where = f"worker {worker}, step {step}, tensor {name!r}, element {element}"
            what = f"{float(x[worker, element])} has no low-bit code"
            raise CaptureError(where, what, "compare steps without it")
    return {name: gradients[name] for name in low}


def table(path: str, seed: int) -> list[str]:
    """Return a text table that compares the low-bit routes by their error on captured gradients.

    It has a row for each of METHODS: the bits per element that a worker sends and reads, and for
    each captured step the cosine and the NMSE of the estimate with respect to the mean of the
    workers' gradients. Only tensors whose default route is a low-bit one, not FP32, are included.

    Args:
        path: Folder of the capture.
        seed: Seed of stochastic rounding.

    Returns:
        The lines of the table, with a title line and a line of column heads.

    Raises:
        CaptureError: The capture is invalid, a gradient of such a tensor is NaN or infinite, or no
            tensor has a low-bit route by default.
    """
    capture = Capture.open(path)
    routes = default_routes(capture.tensors, capture.modules)
    specs = [one for one in capture.tensors if routes[one.name].low_bit and one.elements]
    if not specs:
        todo = "capture a layer that is no head, norm, embedding or bias"
        raise CaptureError(path, "no tensor goes by a low-bit mode by default", todo)
    low, workers = [one.name for one in specs], capture.world_size
    steps = {step: step_of(gradients_of(capture, step, low), low, seed) for step in capture.steps}
    elements = sum(one.elements for one in specs)
    heads = "".join(f"{f'step {step}: cosine, NMSE':>26}" for step in steps)
    out = [f"{path}: {workers} workers, {len(low)} tensors, {elements:,} elements"]
    out.append(f"{'route':22}{'bits up / down':>15}{heads}")
    for name, method in METHODS.items():
        bits = f"{method.bits} / {method.bits * method.lines(workers)}"
        own = "".join(
            f"{judged[name][0]:16.4f}, {judged[name][1]:8.5f}" for judged in steps.values()
        )
        out.append(f"{name:22}{bits:>15}{own}")
    return out


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="route_errors", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("capture", metavar="CAPTURE", help="folder that holds capture.json")
    parser.add_argument("--seed", type=positive, default=1, help="of stochastic rounding (1)")
    args = parser.parse_args(words)
    try:
        say(*table(args.capture, args.seed))
        sys.stdout.flush()
    except CaptureError as error:
        say(f"route_errors: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `.. | head`
        settle_output()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
