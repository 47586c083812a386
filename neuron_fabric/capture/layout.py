# SPDX-License-Identifier: Apache-2.0
"""Layout of a capture on disk: names of files, and the entries of the manifest.

spec: capture spec. The reader and the writer both use this module.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from neuron_fabric.errors import CaptureError

FORMAT = "neuron-fabric-capture"
VERSION = 1
MAX_STEP = 999_999
DTYPES = ("F32", "F16", "BF16")
MAX_ELEMENTS = 1 << 40
MAX_WORKERS = 64  # workers that a region of the controller distinguishes (controller spec §2)
MANIFEST = "capture.json"
WORKER_FILES = "worker-*.safetensors"
# Element types in the file and in numpy. numpy has no BF16, so its bit patterns are used.
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
    """Name, shape and stored type of a gradient tensor; ``dtype`` is safetensors' name ("F32")."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "F32"

    @property
    def elements(self) -> int:
        """Return the number of elements, 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Return the size of its data in a file, in bytes."""
        return self.elements * STORED[self.dtype].itemsize


@dataclass(frozen=True)
class ModuleSpec:
    """Module of a model with the names of its parameters; a tensor in several modules is tied.

    Attributes:
        name: Path of the module, "" for the model itself.
        kind: Name of its class.
        tensors: Names of its tensors.
        head: Whether its output is that of the model.
    """

    name: str
    kind: str
    tensors: tuple[str, ...]
    head: bool = False

    @property
    def is_norm(self) -> bool:
        """Return whether it is a normalization layer: the class name contains "norm"."""
        return "norm" in self.kind.lower()

    @property
    def is_embedding(self) -> bool:
        """Return whether it is an embedding: the class name contains "embed"."""
        return "embed" in self.kind.lower()


def tied_tensors(modules: Sequence[ModuleSpec]) -> list[str]:
    """Return the names of the tensors that several modules share."""
    held = Counter(name for module in modules for name in module.tensors)
    return [name for name, times in held.items() if times > 1]


def step_folder(capture: Path, step: int) -> Path:
    """Return the folder of the workers' files of ``step``."""
    return capture / f"step-{step:06d}"


def worker_file(capture: Path, step: int, worker: int) -> Path:
    """Return the file with the gradients of one worker in one step."""
    return step_folder(capture, step) / f"worker-{worker:03d}.safetensors"


def steps_on_disk(capture: Path) -> list[int]:
    """Return the steps that have a folder, complete or not, in order."""
    found = [re.fullmatch(r"step-(\d{6})", path.name) for path in capture.glob("step-*")]
    return sorted(int(match[1]) for match in found if match)


def check_name(
    where: object, name: object, todo: str = "rename the parameter", what: str = "tensor"
) -> str:
    """Return a name that is safe in files, tables and logs.

    Args:
        where: File or object, for the message.
        name: Name to check.
        todo: Remedy for the message.
        what: Kind of name, for the message.

    Raises:
        CaptureError: It is empty, no text, longer than 256 characters or unsafe.
    """
    if not isinstance(name, str) or not name:
        raise CaptureError(where, f"{what} name {name!r} is no text", todo)
    if (
        len(name) > 256
        or not name.isprintable()
        or name == "__metadata__"
        or name.startswith(("/", "\\"))
        or ".." in re.split(r"[/\\]", name)
    ):
        todo = "no control characters, paths upwards, reserved names or more than 256 characters"
        raise CaptureError(where, f"unsafe {what} name {name!r}", todo)
    return name


def check_shape(where: object, name: str, value: object, todo: str) -> tuple[int, ...]:
    """Return the dimensions of a tensor's shape as a tuple.

    A dimension of 0 counts as 1 for the limit, because numpy limits the product of the others.

    Raises:
        CaptureError: It is no list of at most 32 dimensions, or has 2**40 elements or more.
    """
    if (
        not isinstance(value, list)
        or len(value) > 32
        or not all(type(d) is int and 0 <= d < MAX_ELEMENTS for d in value)
        or math.prod(max(d, 1) for d in value) >= MAX_ELEMENTS
    ):
        raise CaptureError(where, f"tensor {name!r} has a bad shape {value}", todo)
    return tuple(value)
