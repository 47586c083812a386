# SPDX-License-Identifier: Apache-2.0
"""Captures: gradients of every worker and step, read with each way to be wrong checked.

spec: capture spec. Every failure is a ``CaptureError`` of one line; nothing else escapes from
reading a capture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.capture.layout import (
    DTYPES,
    FORMAT,
    MANIFEST,
    MAX_STEP,
    MAX_WORKERS,
    VERSION,
    ModuleSpec,
    TensorSpec,
    check_name,
    check_shape,
    is_int,
    step_folder,
    steps_on_disk,
    worker_file,
)
from neuron_fabric.capture.safetensors_io import TensorFile, open_tensors
from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import CaptureError

F32 = NDArray[np.float32]

_FIX = "correct the manifest or capture again"


@dataclass(frozen=True)
class Capture:
    """An opened capture: the manifest is checked, the steps are checked as they are loaded.

    ``modules`` is empty where the capture does not tell them.
    """

    path: Path
    model: str
    world_size: int
    steps: tuple[int, ...]
    tensors: tuple[TensorSpec, ...]
    note: str = ""
    created: str = ""
    modules: tuple[ModuleSpec, ...] = ()

    @staticmethod
    def open(path: str | Path, max_workers: int = MAX_WORKERS) -> Capture:
        """Read and check ``path``/capture.json; CaptureError when anything is wrong.

        ``max_workers`` is what the device takes (64).
        """
        folder = Path(path)
        where = folder / MANIFEST
        if not folder.is_dir():
            raise CaptureError(folder, "no such folder", "give the folder that holds capture.json")
        try:
            return _manifest(folder, read_object(where), max_workers)
        except FileNotFoundError:
            raise CaptureError(where, "file is missing", "this is no capture folder") from None
        except DataError as error:
            raise CaptureError(where, error, _FIX) from None
        except OSError as error:
            raise CaptureError(where, error.strerror or error, "check the file") from None

    def tensor(self, name: str) -> TensorSpec:
        """The tensor of that name; CaptureError when there is none."""
        for spec in self.tensors:
            if spec.name == name:
                return spec
        raise CaptureError(self.path, f"no tensor {name!r}", "see the manifest for the names")

    def unfinished(self) -> list[int]:
        """Steps that lie on disk and are not listed: their capture was cut off."""
        return [step for step in steps_on_disk(self.path) if step not in self.steps]

    def worker_path(self, step: int, worker: int) -> Path:
        """Where the gradients of (step, worker) lie."""
        return worker_file(self.path, step, worker)

    def open_step(self, step: int) -> list[TensorFile]:
        """The checked headers of every worker's file of ``step``, worker 0 first."""
        if step not in self.steps:
            if step_folder(self.path, step).is_dir():
                what = f"step {step} is not whole: its capture was cut off"
                raise CaptureError(self.path, what, "take another step")
            have = ", ".join(map(str, self.steps[:8])) + (", ..." if len(self.steps) > 8 else "")
            raise CaptureError(self.path, f"no step {step}", f"the capture has {have}")
        return [self._open_worker(step, worker) for worker in range(self.world_size)]

    def _open_worker(self, step: int, worker: int) -> TensorFile:
        path = self.worker_path(step, worker)
        if not path.exists():
            raise CaptureError(
                path,
                f"worker {worker} of {self.world_size} is missing in step {step}",
                "capture the step again with every worker",
            )
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
        """Gradients of ``step``: name to float32[W, *shape], in manifest order.

        ``names`` limits it to some tensors. CaptureError when a file is missing, truncated or
        wrong.
        """
        files = self.open_step(step)
        wanted = {spec.name for spec in self.tensors}
        for name in set(names or ()) - wanted:
            self.tensor(name)  # raises
        wanted = wanted if names is None else set(names)
        return {
            spec.name: np.stack([file.read_f32(spec.name) for file in files])
            for spec in self.tensors
            if spec.name in wanted
        }

    def verify(self) -> None:
        """Check every file of every step, data included; CaptureError at the first fault.

        One tensor of one worker is in memory at a time.
        """
        for _ in self.values():
            pass

    def values(self) -> Iterator[tuple[int, int, TensorSpec, F32]]:
        """(step, worker, tensor, float32[*shape]) of all there is, one at a time."""
        for step in self.steps:
            for worker, file in enumerate(self.open_step(step)):
                for spec in self.tensors:
                    yield step, worker, spec, file.read_f32(spec.name)


def _manifest(folder: Path, content: dict[str, Any], max_workers: int) -> Capture:
    """CaptureError where more can be said than to correct the manifest, else DataError."""

    def fail(what: str, todo: str) -> CaptureError:
        return CaptureError(folder / MANIFEST, what, todo)

    if content.get("format") != FORMAT:
        raise fail(f"format is {content.get('format')!r}, not {FORMAT!r}", "this is no capture")
    version = content.get("version")
    if not is_int(version) or version != VERSION:
        raise fail(f"unknown version {version!r}", f"this reader knows version {VERSION}")
    world = content.get("world_size")
    if not is_int(world) or world < 1:
        raise DataError(f"world_size is {world!r}, not a positive number")
    if world > max_workers:
        raise fail(f"{world} workers, the device takes {max_workers}", "capture with fewer workers")
    steps = content.get("steps")
    if steps == []:
        raise fail("no step is whole: the capture was cut off or is under way", "capture again")
    if not isinstance(steps, list) or not all(is_int(s) and 0 <= s <= MAX_STEP for s in steps):
        raise DataError(f"steps is no list of step numbers 0..{MAX_STEP}")
    if len(set(steps)) != len(steps):
        raise DataError("a step stands twice in steps")
    texts: dict[str, Any] = {"model": content.get("model")}
    texts |= {key: content.get(key, "") for key in ("note", "created")}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise DataError(f"{key} is {value!r}, not a text")
    entries = content.get("tensors")
    if not isinstance(entries, list) or not entries:
        raise DataError("tensors is no list of tensors")
    specs = tuple(_spec(folder / MANIFEST, entry) for entry in entries)
    [(name, times)] = Counter(spec.name for spec in specs).most_common(1)
    if times > 1:
        raise DataError(f"tensor {name!r} stands twice")
    modules = content.get("modules", [])
    if not isinstance(modules, list):
        raise DataError("modules is no list of modules")
    names = dict.fromkeys(spec.name for spec in specs)
    held = tuple(_module(folder / MANIFEST, entry, names) for entry in modules)
    missing = names.keys() - {name for module in held for name in module.tensors}
    if held and missing:
        first = next(name for name in names if name in missing)
        raise DataError(f"tensor {first!r} is in none of the modules")
    return Capture(
        folder, steps=tuple(steps), world_size=world, tensors=specs, modules=held, **texts
    )


def _module(where: Path, entry: object, names: Collection[str]) -> ModuleSpec:
    """``names``: the tensors that there are."""
    if not isinstance(entry, dict):
        raise DataError(f"module entry {entry!r} is no object")
    name, kind, held = entry.get("name"), entry.get("kind"), entry.get("tensors")
    if name != "":  # the model itself
        check_name(where, name, _FIX, "module")
    check_name(where, kind, _FIX, "kind of module")
    if not isinstance(held, list) or not all(isinstance(one, str) for one in held):
        raise DataError(f"module {name!r}: tensors is no list of names")
    strange = [one for one in held if one not in names]
    if strange or len(set(held)) != len(held):
        what = f"holds {strange[0]!r}, which is no tensor" if strange else "holds a tensor twice"
        raise DataError(f"module {name!r} {what}")
    head = entry.get("head", False)
    if not isinstance(head, bool):
        raise DataError(f"module {name!r}: head is {head!r}, not true or false")
    return ModuleSpec(str(name), str(kind), tuple(held), head)


def _spec(where: Path, entry: object) -> TensorSpec:
    if not isinstance(entry, dict):
        raise DataError(f"tensor entry {entry!r} is no object")
    name = check_name(where, entry.get("name"), _FIX)
    shape = check_shape(where, name, entry.get("shape"), _FIX)
    dtype = entry.get("dtype")
    if dtype not in DTYPES:
        what = f"tensor {name!r} has dtype {dtype!r}"
        raise CaptureError(where, what, "gradients are F32, F16 or BF16")
    return TensorSpec(name, shape, dtype)
