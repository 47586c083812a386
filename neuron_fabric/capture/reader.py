# SPDX-License-Identifier: Apache-2.0
"""Reader of captures: gradients of every worker and step.

spec: capture spec. Every fault of a capture is reported as a ``CaptureError`` of one line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.capture import layout
from neuron_fabric.capture.safetensors_io import TensorFile, open_tensors
from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import CaptureError
from neuron_fabric.typed import typed

F32 = NDArray[np.float32]

_FIX = "correct the manifest or capture again"


@dataclass(frozen=True)
class Capture:
    """Opened capture: the content of its manifest, and methods that read the gradients.

    The manifest has been checked; files of a step are checked when it is loaded. ``modules`` is
    empty if the capture does not name them.
    """

    path: Path
    model: str
    world_size: int
    steps: tuple[int, ...]
    tensors: tuple[layout.TensorSpec, ...]
    note: str = ""
    created: str = ""
    modules: tuple[layout.ModuleSpec, ...] = ()

    @staticmethod
    def open(path: str | Path) -> Capture:
        """Read and check the manifest of a capture.

        Args:
            path: Folder of the capture.

        Raises:
            CaptureError: There is no capture, or its manifest is wrong.
        """
        folder = Path(path)
        where = folder / layout.MANIFEST
        if not folder.is_dir():
            raise CaptureError(folder, "no such folder", "give the folder that holds capture.json")
        try:
            return _manifest(folder, read_object(where))
        except FileNotFoundError:
            raise CaptureError(where, "file is missing", "this is no capture folder") from None
        except DataError as error:
            raise CaptureError(where, error, _FIX) from None
        except OSError as error:
            raise CaptureError(where, error.strerror or error, "check the file") from None

    def tensor(self, name: str) -> layout.TensorSpec:
        """Return the entry of a tensor by name. Raises CaptureError if there is none."""
        for spec in self.tensors:
            if spec.name == name:
                return spec
        raise CaptureError(self.path, f"no tensor {name!r}", "see the manifest for the names")

    def unfinished(self) -> list[int]:
        """Return the steps with a folder that the manifest does not list: they were interrupted."""
        return [step for step in layout.steps_on_disk(self.path) if step not in self.steps]

    def worker_path(self, step: int, worker: int) -> Path:
        """Return the path of the file with the gradients of one worker in one step."""
        return layout.worker_file(self.path, step, worker)

    def open_step(self, step: int) -> list[TensorFile]:
        """Return the checked headers of the workers' files of a step, in the order of the workers.

        Raises:
            CaptureError: The step is not listed, or a file is missing, damaged, of a worker that
                the manifest does not have, or differs from the manifest.
        """
        if step not in self.steps:
            if layout.step_folder(self.path, step).is_dir():
                what = f"step {step} is not whole: its capture was cut off"
                raise CaptureError(self.path, what, "take another step")
            have = ", ".join(map(str, self.steps[:8])) + (", ..." if len(self.steps) > 8 else "")
            raise CaptureError(self.path, f"no step {step}", f"the capture has {have}")
        workers = [self.worker_path(step, worker) for worker in range(self.world_size)]
        others = {*layout.step_folder(self.path, step).glob(layout.WORKER_FILES)} - {*workers}
        if others:  # a sum without it would be wrong
            what = f"is of none of the {self.world_size} workers of the manifest"
            raise CaptureError(min(others), what, _FIX)
        return [self._open_worker(step, worker) for worker in range(self.world_size)]

    def _open_worker(self, step: int, worker: int) -> TensorFile:
        path = self.worker_path(step, worker)
        if not path.exists():
            what = f"worker {worker} of {self.world_size} is missing in step {step}"
            raise CaptureError(path, what, "capture the step again with every worker")
        file = open_tensors(path)
        for spec in self.tensors:
            info = file.tensors.get(spec.name)
            if info is None:
                raise CaptureError(path, f"tensor {spec.name!r} is missing", "capture it again")
            for field, has, says in (
                ("shape", list(info.shape), list(spec.shape)),
                ("dtype", info.dtype, spec.dtype),
            ):
                if has != says:
                    what = f"tensor {spec.name!r} has {field} {has}, the manifest says {says}"
                    raise CaptureError(path, what, _FIX)
        extra = sorted(file.tensors.keys() - {spec.name for spec in self.tensors})
        if extra:
            raise CaptureError(path, f"tensor {extra[0]!r} is not in the manifest", _FIX)
        return file

    def load(self, step: int, names: Sequence[str] | None = None) -> dict[str, F32]:
        """Return the gradients of a step by name, ``float32[W, *shape]``, in the manifest's order.

        Args:
            step: A listed step.
            names: Tensors to load; by default all.

        Raises:
            CaptureError: A file is missing, truncated or wrong.
        """
        files = self.open_step(step)
        wanted = {spec.name for spec in self.tensors}
        for name in set(names or ()) - wanted:
            self.tensor(name)  # raises for an unknown name
        wanted = wanted if names is None else set(names)
        return {
            spec.name: np.stack([file.read_f32(spec.name) for file in files])
            for spec in self.tensors
            if spec.name in wanted
        }

    def verify(self) -> None:
        """Read every file of every step with its data; only one tensor is in memory at a time.

        Raises:
            CaptureError: The first fault.
        """
        for _ in self.values():
            pass

    def values(self) -> Iterator[tuple[int, int, layout.TensorSpec, F32]]:
        """Yield (step, worker, tensor, ``float32[*shape]``) for all gradients, one at a time."""
        for step in self.steps:
            for worker, file in enumerate(self.open_step(step)):
                for spec in self.tensors:
                    yield step, worker, spec, file.read_f32(spec.name)


@dataclass(frozen=True)
class _Manifest:
    """Fields of capture.json whose types are checked as a whole; unknown fields are ignored."""

    model: str
    world_size: int
    steps: tuple[int, ...]
    tensors: tuple[dict[str, Any], ...]
    note: str = ""
    created: str = ""
    modules: tuple[dict[str, Any], ...] = ()


def _manifest(folder: Path, content: dict[str, Any]) -> Capture:
    """Return the capture that the content of capture.json describes, checked.

    Raises:
        CaptureError: A fault whose remedy is not to correct the manifest.
        DataError: All other faults.
    """
    where = folder / layout.MANIFEST
    if content.get("format") != layout.FORMAT:
        what = f"format is {content.get('format')!r}, not {layout.FORMAT!r}"
        raise CaptureError(where, what, "this is no capture")
    version = content.get("version")
    if type(version) is not int or version != layout.VERSION:
        todo = f"this reader knows version {layout.VERSION}"
        raise CaptureError(where, f"unknown version {version!r}", todo)
    known = {one.name for one in fields(_Manifest)}
    found = typed(_Manifest, {key: one for key, one in content.items() if key in known})
    if found.world_size < 1:
        raise DataError(f"world_size is {found.world_size}, not a positive number")
    if found.world_size > layout.MAX_WORKERS:
        what = f"{found.world_size} workers, the device takes {layout.MAX_WORKERS}"
        raise CaptureError(where, what, "capture with fewer workers")
    if not found.steps:
        what = "no step is whole: the capture was cut off or is under way"
        raise CaptureError(where, what, "capture again")
    if not all(0 <= step <= layout.MAX_STEP for step in found.steps):
        raise DataError(f"steps has a number outside 0..{layout.MAX_STEP}")
    if len(set(found.steps)) != len(found.steps):
        raise DataError("a step stands twice in steps")
    specs = tuple(_spec(where, entry) for entry in found.tensors)
    modules = tuple(_module(where, entry) for entry in found.modules)
    _check_members(specs, modules)
    return Capture(**{**vars(found), "path": folder, "tensors": specs, "modules": modules})


def _check_members(
    specs: Sequence[layout.TensorSpec], modules: Sequence[layout.ModuleSpec]
) -> None:
    """Check that names are unique, and that modules, if any, hold each tensor and no other."""
    if not specs:
        raise DataError("tensors is empty")
    names = Counter(spec.name for spec in specs)
    [(name, times)] = names.most_common(1)
    if times > 1:
        raise DataError(f"tensor {name!r} stands twice")
    for module in modules:
        unknown = [one for one in module.tensors if one not in names]
        if unknown:
            raise DataError(f"module {module.name!r} holds {unknown[0]!r}, which is no tensor")
        if len(set(module.tensors)) != len(module.tensors):
            raise DataError(f"module {module.name!r} holds a tensor twice")
    held = {name for module in modules for name in module.tensors}
    missing = [name for name in names if name not in held]
    if modules and missing:
        raise DataError(f"tensor {missing[0]!r} is in none of the modules")


def _module(where: Path, entry: dict[str, Any]) -> layout.ModuleSpec:
    known = {one.name for one in fields(layout.ModuleSpec)}
    module = typed(
        layout.ModuleSpec, {key: one for key, one in entry.items() if key in known}, "modules"
    )
    if module.name:  # the model itself has no name
        layout.check_name(where, module.name, _FIX, "module")
    layout.check_name(where, module.kind, _FIX, "kind of module")
    return module


def _spec(where: Path, entry: dict[str, Any]) -> layout.TensorSpec:
    name = layout.check_name(where, entry.get("name"), _FIX)
    shape = layout.check_shape(where, name, entry.get("shape"), _FIX)
    dtype = entry.get("dtype")
    if dtype not in layout.DTYPES:
        what = f"tensor {name!r} has dtype {dtype!r}"
        raise CaptureError(where, what, "gradients are F32, F16 or BF16")
    return layout.TensorSpec(name, shape, dtype)
