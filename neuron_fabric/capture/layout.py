# SPDX-License-Identifier: Apache-2.0
"""How a capture lies on disk: names of files, and what the manifest says of a tensor.

spec: capture spec. The reader (`neuron_fabric.capture.reader`) and the writer both stand on this.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from neuron_fabric.errors import CaptureError

FORMAT = "neuron-fabric-capture"
VERSION = 1
MAX_STEP = 999_999
DTYPES = ("F32", "F16", "BF16")
MAX_ELEMENTS = 1 << 40
MAX_WORKERS = 64  # as many as a region of the controller tells apart (controller spec §2)
MANIFEST = "capture.json"
# Types: name in the file, and in numpy. BF16, which numpy has not, travels as its bit pattern.
STORED = {
    name: np.dtype(kind)
    for name, kind in {
        "F64": "<f8",
        "F32": "<f4",
        "F16": "<f2",
        "I64": "<i8",
        "I32": "<i4",
        "I16": "<i2",
        "I8": "i1",
        "U8": "u1",
        "BOOL": "u1",
        "BF16": "<u2",
    }.items()
}


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

    @property
    def size(self) -> int:
        """Its bytes in a file."""
        return self.elements * STORED[self.dtype].itemsize


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


def check_shape(where: object, name: str, value: object, todo: str) -> tuple[int, ...]:
    """A list of dimensions; CaptureError when it is none, or has more than 2**40 elements: also
    where one of them is 0, as numpy counts the others all the same."""
    if (
        not isinstance(value, list)
        or len(value) > 32
        or not all(type(d) is int and 0 <= d < MAX_ELEMENTS for d in value)
        or math.prod(max(d, 1) for d in value) >= MAX_ELEMENTS
    ):
        raise CaptureError(where, f"tensor {name!r} has a bad shape {value}", todo)
    return tuple(value)
