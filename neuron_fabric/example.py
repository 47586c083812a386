# SPDX-License-Identifier: Apache-2.0
"""`python -m neuron_fabric.example [FOLDER]`: writes a small capture and reads it back.

Two workers, two steps, without torch. A training writes the same by `neuron_fabric.attach`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from neuron_fabric.capture import Capture, CaptureError, ModuleSpec, write_capture
from neuron_fabric.errors import say

WORKERS = 2
SHAPES = {"fc.weight": (4, 3), "fc.bias": (4,)}


def run(folder: Path) -> None:
    """Write a capture to ``folder``, read it back, and compare it with what was written."""
    rng = np.random.default_rng(1)
    written = {
        step: {name: rng.normal(size=(WORKERS, *shape)) for name, shape in SHAPES.items()}
        for step in (0, 50)
    }
    head = ModuleSpec("fc", "Linear", tuple(SHAPES), head=True)
    write_capture(folder, "example", written, "BF16", modules=[head])

    capture = Capture.open(folder)
    say(f"{capture.model}: {capture.world_size} workers, steps {capture.steps}")
    for step in capture.steps:
        for name, gradients in capture.load(step).items():  # float32[workers, *shape]
            error = np.abs(gradients - written[step][name]).max()
            assert error < 2**-7, f"{name} is off by {error}"  # BF16 keeps 8 bits of 1 and more
            negative = (gradients < 0).sum(axis=0)
            say(f"step {step}, {name}{list(gradients.shape[1:])}: {negative.max()} agree on minus")
    try:
        capture.load(7)
    except CaptureError as error:
        say(f"a step that is not there: {error}")


def main() -> None:
    """Run the example in the folder of the command line, or in a temporary one."""
    if len(sys.argv) > 1:
        run(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder, "capture"))


if __name__ == "__main__":
    main()
