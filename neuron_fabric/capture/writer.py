# SPDX-License-Identifier: Apache-2.0
"""Writer of a capture during training; the capture on disk is consistent at every moment.

spec: capture spec. Each worker writes separate files. The lead (worker 0) writes the manifest: it
lists a step once the files of all workers have their final names, which a file gets only when it is
complete and on disk. A crash at any moment therefore leaves all steps that were complete; an
incomplete step is not listed, and readers ignore it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neuron_fabric.capture import layout
from neuron_fabric.capture.reader import Capture
from neuron_fabric.capture.safetensors_io import PART, TensorFileWriter, f32_to_bf16
from neuron_fabric.data import DataError, read_json
from neuron_fabric.errors import CaptureError
from neuron_fabric.output import NewFile, sync_folder

SHOWN_S = 5.0
_LOCKS: set[int] = set()
"""Descriptors of the folders that this process has locked."""


def _unlock(folder: int) -> None:
    if folder in _LOCKS:
        _LOCKS.discard(folder)
        os.close(folder)


def _unlock_all() -> None:
    for folder in tuple(_LOCKS):
        _unlock(folder)


# A DataLoader worker that outlives its training must not keep the lock.
os.register_at_fork(after_in_child=_unlock_all)


@dataclass
class CaptureFolder:
    """Folder of a capture as worker 0 (the lead) uses it: creates it and lists complete steps.

    ``steps`` are the steps in the manifest, ``pending`` those whose files are not all complete.
    """

    path: Path
    model: str
    world_size: int
    tensors: Sequence[layout.TensorSpec]
    note: str = ""
    created: str = ""
    modules: Sequence[layout.ModuleSpec] = ()
    steps: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    _locked: bool = False

    def create(self, replace: bool = False) -> None:
        """Create the folder with a manifest that lists no step, and remove step folders in it.

        Args:
            replace: Whether to replace a capture with complete steps; otherwise only the remains of
                an interrupted capture are removed.

        Raises:
            CaptureError: The folder cannot be created, is in use, or holds something else or
                complete steps; or the tensors cannot be captured.
        """
        check_tensors(self.path, self.tensors)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock()
            listed = _listed_steps(self.path)
            if listed and not replace:
                what = f"holds a capture already ({listed} steps)"
                raise CaptureError(self.path, what, "remove it or choose another folder")
            self._write_manifest()  # first: a step must not be listed while it is removed
            for step in layout.steps_on_disk(self.path):
                shutil.rmtree(layout.step_folder(self.path, step))
        except OSError as error:
            why = error.strerror or error
            raise CaptureError(self.path, why, "choose another folder") from None

    def _lock(self) -> None:
        """Lock the folder while this object exists.

        The system releases the lock of a killed process. A file system without locks is accepted.

        Raises:
            CaptureError: Another capture is being written to the folder.
        """
        if self._locked:
            return
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(folder)
            what = "another capture is being written to this folder"
            todo = "give every model and every run a separate folder"
            raise CaptureError(self.path, what, todo) from None
        except OSError:
            os.close(folder)  # a file system without locks
            return
        self._locked = True
        _LOCKS.add(folder)
        weakref.finalize(self, _unlock, folder)

    def finished(self, step: int) -> None:
        """Record that the lead has written its file of a step, and call `collect`."""
        self.pending.append(step)
        self.collect()

    def collect(self) -> None:
        """List in the manifest every pending step whose files of all workers are complete.

        On OSError they stay pending, and the next call tries again.
        """
        whole = [step for step in self.pending if not self.missing(step)]
        if whole:
            if not (self.path / layout.MANIFEST).exists():  # the folder was removed meanwhile
                self.steps = [step for step in self.steps if not self.missing(step)]
            self.steps = sorted({*self.steps, *whole})
            self._write_manifest()
            self.pending = [step for step in self.pending if step not in whole]

    def missing(self, step: int) -> list[int]:
        """Return the workers that have no complete file of a step."""
        files = [layout.worker_file(self.path, step, worker) for worker in range(self.world_size)]
        return [worker for worker, file in enumerate(files) if not file.is_file()]

    def _write_manifest(self) -> None:
        manifest: dict[str, Any] = {
            "format": layout.FORMAT,
            "version": layout.VERSION,
            "model": self.model,
            "world_size": self.world_size,
            "steps": self.steps,
            "tensors": [asdict(spec) for spec in self.tensors],
            "note": self.note,
            "created": self.created,
        }
        if self.modules:
            manifest["modules"] = [_entry(one) for one in self.modules]
        place = self.path / layout.MANIFEST
        with NewFile(place, place.with_name(place.name + PART), durable=True) as file:
            file.put((json.dumps(manifest, indent=1) + "\n").encode())


def worker_writer(
    capture: Path,
    step: int,
    worker: int,
    tensors: Sequence[layout.TensorSpec],
    metadata: Mapping[str, str] | None = None,
) -> TensorFileWriter:
    """Return a writer of the file of one worker and step; its tensors may come in any order.

    `close` of the writer raises ValueError if a tensor is missing. Raises OSError.
    """
    target = layout.worker_file(capture, step, worker)
    target.parent.mkdir(parents=True, exist_ok=True)
    sync_folder(capture)
    return TensorFileWriter(target, tensors, {**(metadata or {}), "step": str(step)}, durable=True)


def write_capture(
    path: str | Path,
    model: str,
    steps: Mapping[int, Mapping[str, ArrayLike]],
    dtype: Literal["F32", "F16", "BF16"] = "F32",
    note: str = "",
    created: str = "",
    modules: Sequence[layout.ModuleSpec] = (),
) -> Capture:
    """Write a capture of given gradients and open it; an existing capture at ``path`` is replaced.

    Args:
        path: Folder.
        model: Name of the model.
        steps: Step -> name -> ``float32[W, *shape]``; all steps have the same names, shapes and W.
        dtype: Stored type; F16 and BF16 are rounded.
        note: Free text.
        created: Time of the capture, as a text.
        modules: Modules of the model.

    Raises:
        ValueError: Steps differ in names, shapes or W.
        CaptureError: The folder cannot be used.
    """
    folder = Path(path)
    arrays: dict[int, dict[str, NDArray[np.float32]]] = {
        step: {name: np.asarray(value, dtype=np.float32) for name, value in tensors.items()}
        for step, tensors in steps.items()
    }
    if not arrays:
        raise ValueError("a capture has at least one step")
    shapes = [{name: a.shape for name, a in tensors.items()} for tensors in arrays.values()]
    workers = {shape[:1] for shape in shapes[0].values()}
    if any(s != shapes[0] for s in shapes) or len(workers) != 1 or workers == {()}:
        raise ValueError("every step needs the same tensors, each float32[W, *shape] with one W")
    world = next(iter(workers))[0]
    specs = [layout.TensorSpec(name, shape[1:], dtype) for name, shape in shapes[0].items()]
    lead = CaptureFolder(folder, model, world, specs, note, created, modules)
    lead.create(replace=True)
    for step, tensors in arrays.items():
        for worker in range(world):
            with worker_writer(folder, step, worker, specs) as file, np.errstate(over="ignore"):
                for name, values in tensors.items():
                    own = values[worker]  # large values become infinite in F16
                    kept = f32_to_bf16(own) if dtype == "BF16" else own.astype(layout.STORED[dtype])
                    file.write(name, kept)
        lead.finished(step)
    return Capture.open(folder)


def check_shared(path: Path, manifest: bytes) -> None:
    """Check that this process sees the folder that the lead has created and may write to it.

    Args:
        path: Folder of the capture.
        manifest: Content of the lead's manifest. A network file system has `SHOWN_S` seconds to
            show it.

    Raises:
        CaptureError: The folder is another one, or cannot be written.
    """
    until = time.monotonic() + SHOWN_S
    while (found := _content(path / layout.MANIFEST)) != manifest and time.monotonic() < until:
        time.sleep(SHOWN_S / 50)
    if found != manifest:
        what = "is not the folder that the first worker has made"
        todo = "give all machines one folder, or choose the ranks of one machine (NF_CAPTURE_RANKS)"
        raise CaptureError(path, what, todo)
    try:
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise CaptureError(path, error.strerror or error, "choose another folder") from None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def check_tensors(where: object, tensors: Sequence[layout.TensorSpec]) -> None:
    """Check the tensors to capture.

    Raises:
        CaptureError: There is none, or a name or a dtype is one that a capture cannot hold.
    """
    if not tensors:
        raise CaptureError(where, "no tensor to capture", "choose other layers")
    for spec in tensors:
        layout.check_name(where, spec.name)
        if spec.dtype not in layout.DTYPES:
            todo = "gradients are F32, F16 or BF16: train in one of these, or leave the layer out"
            raise CaptureError(where, f"tensor {spec.name!r} has dtype {spec.dtype}", todo)


def _entry(module: layout.ModuleSpec) -> dict[str, Any]:
    entry = {"name": module.name, "kind": module.kind, "tensors": list(module.tensors)}
    return {**entry, "head": True} if module.head else entry


def _listed_steps(path: Path) -> int:
    """Return how many steps the manifest of the capture in ``path`` lists; 0 for an empty folder.

    Raises:
        CaptureError: The folder holds something else.
    """
    manifest = path / layout.MANIFEST
    if manifest.is_file():
        try:
            content = read_json(manifest)
        except DataError:
            content = None
        if isinstance(content, dict) and content.get("format") == layout.FORMAT:
            steps = content.get("steps")
            return len(steps) if isinstance(steps, list) else 0
    elif all(one.name == layout.MANIFEST + PART for one in path.iterdir()):
        return 0
    raise CaptureError(path, "is not empty and holds no capture", "choose another folder")
