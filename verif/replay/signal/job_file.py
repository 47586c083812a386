# SPDX-License-Identifier: Apache-2.0
"""Files exchanged by `nf replay` and its testbench in the simulator: the job, and the returned
lines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.capture.safetensors_io import open_tensors, write_tensors
from neuron_fabric.data import DataError, parse_json
from neuron_fabric.errors import CaptureError
from neuron_fabric.output import write_text
from neuron_fabric.typed import typed
from verif.replay.epoch import EpochLines, Key
from verif.replay.gradient_source import changed
from verif.replay.job import Replay, make_replay
from verif.replay.options import ReplayOptions

JOB = "NF_REPLAY_JOB"
"""Environment variable with the name of the job file, for the bench."""


@dataclass(frozen=True)
class SignalJob:
    """Job of one simulator process at signal level.

    Attributes:
        options: Options of the command.
        keys: (step, number of the epoch in the step) of each epoch to drive.
        folder: Folder for the returned lines.
        content: Hash of the capture as the command read it.
    """

    options: ReplayOptions
    keys: Sequence[Key]
    folder: Path
    content: str

    def prepare(self) -> Replay:
        """Read the capture again, and return the replay.

        Raises:
            CaptureError: It differs from the one that the command read.
        """
        replay = make_replay(self.options)
        if replay.content != self.content:
            raise changed(self.options.capture)
        return replay

    def write(self, path: Path) -> None:
        """Write the job file, in JSON."""
        write_text(path, json.dumps(asdict(self), default=str, indent=1))

    @staticmethod
    def read(path: Path) -> SignalJob:
        """Read a job file."""
        return typed(SignalJob, parse_json(path.read_bytes()))


def steps_of(replay: Replay, keys: Sequence[Key]) -> Iterator[list[EpochLines]]:
    """Yield the epochs of each step of a session; the lines of a step are read when it is
    reached.
    """
    for _, group in groupby(keys, key=lambda key: key[0]):
        yield [replay.epoch(key) for key in group]


@dataclass(frozen=True)
class _Measured:
    figures: dict[str, int]
    problems: list[str]


def write_raw(
    folder: Path, works: Sequence[EpochLines], figures: Counter[str], problems: Sequence[str]
) -> None:
    """Write the returned lines of a step to a file, whole or not at all.

    Args:
        folder: Folder of the session.
        works: Epochs of the step.
        figures: Cycles, lines and counters of the step.
        problems: Errors reported by registers and responses.
    """
    tensors: dict[str, NDArray[Any]] = {}
    for work in works:
        for extent, _, lines in work.extents():
            tensors[extent.tensor.name] = lines.stack
    measured = json.dumps({"figures": figures, "problems": list(problems)})
    write_tensors(_raw_path(folder, works), tensors, {"measured": measured})


def read_raw(folder: Path, works: Sequence[EpochLines]) -> tuple[Counter[str], list[str]] | None:
    """Read the returned lines of a step into its epochs, from the file that the testbench wrote.

    Args:
        folder: Folder of the session.
        works: Epochs of the step, whose ``returned`` is filled.

    Returns:
        Figures and problems of the step, with a problem for each tensor without lines; None if the
        testbench wrote no file.

    Raises:
        CaptureError: The file is damaged.
    """
    path = _raw_path(folder, works)
    if not path.is_file():
        return None
    file = open_tensors(path)
    try:
        measured = typed(_Measured, parse_json(file.metadata["measured"]), "measured")
    except (DataError, KeyError) as error:
        raise CaptureError(path, f"is damaged ({error})", "replay again") from None
    missing = []
    for work in works:
        for extent, _, lines in work.extents():
            name = extent.tensor.name
            entry = file.tensors.get(name)
            if entry is None or entry.shape != lines.stack.shape:
                missing.append(f"step {work.step} tensor {name}: nothing was read back")
                continue
            np.copyto(lines.stack, file.read(name))
    return Counter(measured.figures), missing + measured.problems


def _raw_path(folder: Path, works: Sequence[EpochLines]) -> Path:
    return folder / f"raw-{works[0].step:06d}.safetensors"
