# SPDX-License-Identifier: Apache-2.0
"""Replay of a capture never seen before: five workers, odd sizes, one element, every route."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from neuron_fabric.capture.reader import write_capture
from verif.env.base_test import PROFILES, run_uvm
from verif.parameters import device_params
from verif.replay.bench import ReplayTest
from verif.replay.check import compare
from verif.replay.options import ReplayOptions
from verif.replay.prepare import Lines, Session, StepWork, prepare
from verif.replay.sequence import ReplaySequence

WORKERS = 5
SHAPES: dict[str, tuple[int, ...]] = {
    "stem.weight": (3, 1, 7, 7),
    "stem.bias": (3,),
    "one": (1,),
    "scalar": (),
    "nothing": (0, 4),
    "body.weight": (37, 19),
    "body.gate": (23, 29),
    "head.scale": (1, 1),
    "head.weight": (11, 13),
    "head.bias": (11,),
}
ROUTES = ("body.gate=G_TERNARY", "one=G_BINARY", "scalar=G_TERNARY", "head.scale=G_TERNARY")


def gradients(seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Values of many magnitudes, zeros and negative zeros among them."""
    rng = np.random.default_rng(seed)
    out = {}
    for name, shape in SHAPES.items():
        scale = 10.0 ** rng.integers(-30, 30, (WORKERS, *shape))
        values = (rng.standard_normal((WORKERS, *shape)) * scale).astype(np.float32)
        values[rng.random(values.shape) < 0.1] = np.float32(-0.0)
        values[rng.random(values.shape) < 0.1] = 0.0
        out[name] = values
    return out


def synthetic(seed: int, **options: Any) -> Session:
    """Two training steps of a random capture, packed for the device of this build."""
    with tempfile.TemporaryDirectory() as folder:
        steps = {2: gradients(seed), 9: gradients(seed + 1)}
        write_capture(Path(folder) / "capture", "synthetic", steps)
        return prepare(
            ReplayOptions(
                str(Path(folder) / "capture"),
                routes=ROUTES,
                seed=seed,
                parameters=device_params().as_rtl(),
                **options,
            )
        ).sessions[0]


class MixTest(ReplayTest):
    """Every route at once, two steps without a reset between them."""

    def session(self) -> Session:
        return synthetic(self.cfg.seed, threshold=2)


class TwinTest(ReplayTest):
    """Negative twin: one bit of one expected line is wrong, and the check must name it."""

    async def scenario(self) -> None:
        work = synthetic(self.cfg.seed)[0]
        sequence = ReplaySequence(self.env, work)
        await sequence.start(self.env.cxl.sequencer)
        got = sequence.result.got
        right = compare(work, got)
        assert right.wrong == 0, right.first
        assert right.lines == work.lines > 0
        for name, element in (("body.weight", 139), ("body.gate", 70), ("head.weight", 4)):
            wrong = compare(corrupted(work, name, 1, element), got)
            assert wrong.wrong == 1, f"{wrong.wrong} lines differ where one was broken"
            for text in (f"tensor {name} ", "line 1 ", f"element {element} "):
                assert text in wrong.first, wrong.first
        lost = compare(work, {n: lines for n, lines in got.items() if n != "one"})
        assert lost.wrong == 1, "a tensor that was not read back is not seen"


def corrupted(work: StepWork, name: str, line: int, element: int) -> StepWork:
    """The work with the lowest bit of one expected element inverted."""
    tensor = work.tensors[name]
    width = 512 // {1: 512, 2: 256, 3: 16}[tensor.mode]
    result = tensor.expected.result.copy()
    result[line, element * width // 8] ^= 1 << element * width % 8
    broken = replace(tensor, expected=Lines(result, tensor.expected.planes))
    return replace(work, tensors={**work.tensors, name: broken})


@cocotb.test()
@cocotb.parametrize(profile=PROFILES)
async def mixed_routes(_dut: Any, profile: str) -> None:
    """Tensors by all three routes at once come back as the reducers say."""
    await run_uvm(MixTest, profile)


@cocotb.test()
async def broken_expectation(_dut: Any) -> None:
    """A single wrong bit is found and named by tensor, line and element."""
    await run_uvm(TwinTest)
