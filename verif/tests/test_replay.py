# SPDX-License-Identifier: Apache-2.0
"""Replay of a random capture: five workers, odd sizes, single elements, every route."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from neuron_fabric.capture import write_capture
from verif.parameters import device_params
from verif.replay.epoch import EpochLines
from verif.replay.job import make_replay
from verif.replay.line_check import judge
from verif.replay.options import ReplayOptions
from verif.replay.signal.job_file import steps_of
from verif.replay.signal.replay_bench import ReplaySequence, ReplayTest
from verif.tests.decorator import ALL, nf_test

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
    """Draw gradients of each tensor, f32[WORKERS, *shape]: many magnitudes, zeros, -0."""
    rng = np.random.default_rng(seed)
    out = {}
    for name, shape in SHAPES.items():
        scale = 10.0 ** rng.integers(-30, 30, (WORKERS, *shape))
        values = (rng.standard_normal((WORKERS, *shape)) * scale).astype(np.float32)
        values[rng.random(values.shape) < 0.1] = np.float32(-0.0)
        values[rng.random(values.shape) < 0.1] = 0.0
        out[name] = values
    return out


def synthetic(seed: int, **options: Any) -> list[list[EpochLines]]:
    """Return the epochs of two training steps of a random capture, packed for this build's device.

    `options` are fields of `ReplayOptions`.
    """
    with tempfile.TemporaryDirectory() as folder:
        steps = {2: gradients(seed), 9: gradients(seed + 1)}
        write_capture(Path(folder) / "capture", "synthetic", steps)
        capture, parameters = str(Path(folder) / "capture"), device_params().as_rtl()
        replay = make_replay(
            ReplayOptions(capture, routes=ROUTES, seed=seed, parameters=parameters, **options)
        )
        return list(steps_of(replay, replay.own_keys()))


class MixTest(ReplayTest):
    """Replay of tensors of every route in two training steps, without a reset between them."""

    def steps(self) -> list[list[EpochLines]]:
        return synthetic(self.cfg.seed, threshold=2)


class TwinTest(ReplayTest):
    """Negative twin: one bit of one returned line is wrong, and `judge` must name it."""

    async def scenario(self) -> None:
        works = synthetic(self.cfg.seed)[0]
        await ReplaySequence(self.env, works).start(self.env.cxl.sequencer)
        right = [judge(work) for work in works]
        assert not any(one.wrong for one in right), right
        assert sum(one.lines for one in right) == sum(work.lines for work in works) > 0
        for name, element in (("body.weight", 139), ("body.gate", 70), ("head.weight", 4)):
            damage(works, name, 1, element)
            wrong = [judge(work) for work in works]
            assert sum(one.wrong for one in wrong) == 1, "other lines differ than what was broken"
            text = next(one.first.text for one in wrong if one.first is not None)
            for word in (f"tensor {name} ", "line 1 ", f"element {element} "):
                assert word in text, text
            damage(works, name, 1, element)  # as it was


def damage(works: list[EpochLines], name: str, line: int, element: int) -> None:
    """Invert the lowest bit of an element of a line of a tensor in the returned results."""
    for work in works:
        for extent, use, lines in work.extents():
            if extent.tensor.name == name:
                width = 512 // {1: 512, 2: 256, 3: 16}[use.config.mode]
                lines.result[line, element * width // 8] ^= 1 << element * width % 8


@nf_test(MixTest, profiles=ALL)
def mixed_routes() -> None:
    """Check that tensors of all routes, replayed together, return what the reducers compute."""


@nf_test(TwinTest)
def broken_expectation() -> None:
    """Check that a single wrong bit is found, and named by tensor, line and element."""
