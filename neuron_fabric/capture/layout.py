# SPDX-License-Identifier: Apache-2.0
"""How a capture lies on disk: names of files, and what the manifest says of a tensor.

spec: capture spec. The reader (`neuron_fabric.capture.reader`) and the writer both stand on this.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from neuron_fabric.errors import CaptureError

FORMAT = "neuron-fabric-capture"
VERSION = 1
MAX_STEP = 999_999
DTYPES = ("F32", "F16", "BF16")
MAX_WORKERS = 64  # as many as a region of the controller tells apart (controller spec §2)
MANIFEST = "capture.json"


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as the manifest names it; ``dtype`` is that of the file format."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "F32"

    @property
    def elements(self) -> int:
        """Number of elements (1 for a scalar)."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class ModuleSpec:
    """A module of the model and the tensors that it holds; one that several hold is tied.

    ``name`` is "" for the model itself; ``kind`` the name of its class; ``head``: its output is the
    model's.
    """

    name: str
    kind: str
    tensors: tuple[str, ...]
    head: bool = False

    @property
    def is_norm(self) -> bool:
        """Whether it normalizes, by the name of its class."""
        return "norm" in self.kind.lower()

    @property
    def is_embedding(self) -> bool:
        """Whether it embeds, by the name of its class."""
        return "embed" in self.kind.lower()


def step_folder(capture: Path, step: int) -> Path:
    """Where the workers' files of ``step`` lie."""
    return capture / f"step-{step:06d}"


def worker_file(capture: Path, step: int, worker: int) -> Path:
    """The gradients of one worker in one step."""
    return step_folder(capture, step) / f"worker-{worker:03d}.safetensors"


def steps_on_disk(capture: Path) -> list[int]:
    """Steps that have a folder, whole or not, in order."""
    found = [re.fullmatch(r"step-(\d{6})", path.name) for path in capture.glob("step-*")]
    return sorted(int(match[1]) for match in found if match)


def check_name(
    where: object, name: object, todo: str = "rename the parameter", what: str = "tensor"
) -> str:
    """A name that is safe in files, tables and logs; CaptureError, with ``what`` it names, when it
    is not."""
    if not isinstance(name, str) or not name:
        raise CaptureError(where, f"{what} name {name!r} is no text", todo)
    if (
        len(name) > 256
        or not name.isprintable()
        or name == "__metadata__"
        or name.startswith(("/", "\\"))
        or ".." in re.split(r"[/\\]", name)
    ):
        raise CaptureError(
            where,
            f"unsafe {what} name {name!r}",
            "no control characters, paths upwards, reserved names or more than 256 characters",
        )
    return name
