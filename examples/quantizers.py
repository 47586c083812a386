# SPDX-License-Identifier: Apache-2.0
"""What each route makes of the true mean: cosine and error, on the gradients of a capture.

    python -m examples.quantizers captures/digits-resnet-8x

The reference models reduce every tensor that the default routes send by a low-bit mode. A vote and
a count say nothing about magnitudes: each is scaled by the number that fits that tensor best, which
no host knows, so the rows are kind to them. Sums of integer codes need no such help. NMSE is the
squared error over the square of the mean.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from models.int_sums import reduce_int
from models.line_packing import F32, Mode, unpack_binary, unpack_ternary
from models.quantize import bucket_maxima, mean_of_sums, scale_of_each, scales
from models.reducers import reduce_binary, reduce_ternary
from neuron_fabric.capture import Capture
from neuron_fabric.errors import CaptureError
from verif.replay.routing import default_routes
from verif.replay.tensors import pack_shared, pack_tensor

F64 = NDArray[np.float64]
DRAWS = 5
"""Of stochastic rounding: the rows are means over them."""

Estimate = Callable[[F32, np.random.Generator], F64]
"""(float32[W, elements], draws) -> what the host gets for the mean of a tensor."""


def _fitted(estimate: F64, mean: F64) -> F64:
    """Scaled by the number that fits best."""
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
        u = scale_of_each(scales(bucket_maxima(x), mode), x.shape[1])
        lines = pack_shared(x, mode, u, rng.random(x.shape) if stochastic else None)
        sums = reduce_int(lines, mode).sums.reshape(-1)[: x.shape[1]]
        return mean_of_sums(sums, u, len(x)).astype(np.float64)

    return estimate


METHODS: Mapping[str, tuple[str, bool, Estimate]] = {
    "G_BINARY vote": ("1 / 1", False, _votes(Mode.G_BINARY, counts=False)),
    "G_BINARY counts": ("1 / 4", False, _votes(Mode.G_BINARY, counts=True)),
    "G_TERNARY vote": ("2 / 2", False, _votes(Mode.G_TERNARY, counts=False)),
    "G_TERNARY net counts": ("2 / 8", False, _votes(Mode.G_TERNARY, counts=True)),
    "G_INT4 nearest": ("4 / 8", False, _codes(Mode.G_INT4, stochastic=False)),
    "G_INT4 stochastic": ("4 / 8", True, _codes(Mode.G_INT4, stochastic=True)),
    "G_INT8 nearest": ("8 / 16", False, _codes(Mode.G_INT8, stochastic=False)),
    "G_INT8 stochastic": ("8 / 16", True, _codes(Mode.G_INT8, stochastic=True)),
}
"""By name: bits an element up and down with 8 workers, whether it draws, and the estimate."""


def judge(estimate: F64, mean: F64) -> tuple[float, float]:
    """(cosine, NMSE) of an estimate of the mean."""
    across = float(np.linalg.norm(estimate) * np.linalg.norm(mean))
    error = float(((estimate - mean) ** 2).sum() / (mean**2).sum())
    return float(estimate @ mean) / across, error


def step_of(
    gradients: Mapping[str, F32], low: list[str], seed: int
) -> dict[str, tuple[float, float]]:
    """(cosine, NMSE) of every method over the tensors ``low`` of a step."""
    flat = [gradients[name].reshape(len(gradients[name]), -1) for name in low]
    mean = np.concatenate([x.mean(axis=0, dtype=np.float64) for x in flat])
    out = {}
    for name, (_, draws, estimate) in METHODS.items():
        rng = np.random.default_rng(seed)
        judged = [
            judge(np.concatenate([estimate(x, rng) for x in flat]), mean)
            for _ in range(DRAWS if draws else 1)
        ]
        cosine, error = (float(np.mean(values)) for values in zip(*judged, strict=True))
        out[name] = cosine, error
    return out


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="quantizers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("capture", metavar="CAPTURE", help="folder that holds capture.json")
    parser.add_argument("--seed", type=int, default=1, help="of stochastic rounding")
    args = parser.parse_args(words)
    try:
        capture = Capture.open(args.capture)
        routes = default_routes(capture.tensors, capture.modules)
        low = [t.name for t in capture.tensors if routes[t.name].low_bit and t.elements]
        steps = {step: step_of(capture.load(step), low, args.seed) for step in capture.steps}
    except (CaptureError, ValueError) as error:
        print(f"quantizers: {error}", file=sys.stderr)
        return 2
    elements = sum(spec.elements for spec in capture.tensors if spec.name in low)
    print(
        f"{args.capture}: {capture.world_size} workers, {len(low)} tensors, {elements:,} elements"
    )
    heads = "".join(f"{f'step {step}: cosine, NMSE':>26}" for step in steps)
    print(f"{'route':22}{'bits up / down':>15}{heads}")
    for name, (bits, _, _) in METHODS.items():
        own = "".join(
            f"{judged[name][0]:16.4f}, {judged[name][1]:8.5f}" for judged in steps.values()
        )
        print(f"{name:22}{bits:>15}{own}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
