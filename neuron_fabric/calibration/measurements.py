# SPDX-License-Identifier: Apache-2.0
"""Measurements of a training: a header, and a row of float64 for each sample.

A training that is stopped or killed leaves all rows that were whole.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.calibration.calibration_job import CalibrationError
from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError, read_object
from neuron_fabric.output import write_text
from neuron_fabric.profile.model_sketch import Parameter
from neuron_fabric.profile.profile_types import (
    DECODES,
    GRANULARITIES,
    STEADY,
    WARMUP,
    ValidFor,
    decode_name,
)
from neuron_fabric.profile.samples import MORE, SUMS, Samples, Way
from neuron_fabric.typed import typed

ABOUT, ROWS = "about.json", "rows.f64"
VOTE_DECODES = tuple(decode_name(d, g) for g in GRANULARITIES for d in DECODES)
NAMES = (*SUMS, *MORE)
"""Statistics of a row, see `shadow_run`."""
F64 = NDArray[np.float64]


@dataclass(frozen=True)
class About:
    """Header of the measurements.

    Attributes:
        workers: Number of workers.
        every: Steps between samples.
        routes: Routes that were measured.
        parameters: Parameters of the model.
        steps: Steps of the whole training, if the script has announced them.
        valid_for: Conditions of the training that are known.
    """

    workers: int
    every: int
    routes: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    steps: int | None = None
    valid_for: ValidFor = field(default_factory=ValidFor)

    @property
    def ways(self) -> list[tuple[str, str]]:
        """Return (route, decode) in the order of a row; integer codes have one decoding, "vote".

        A granularity follows the decode (see `decode_name`).
        """
        return [
            (route, decode)
            for route in self.routes
            for decode in (("vote",) if Route(route).codes else VOTE_DECODES)
        ]

    @property
    def trained(self) -> list[Parameter]:
        """Return the trainable parameters, in the order of a row."""
        return [one for one in self.parameters if one.trainable]


class RowWriter:
    """Writer of the measurements, used on rank 0; its constructor and methods raise OSError."""

    def __init__(self, folder: Path, about: About) -> None:
        write_text(folder / ABOUT, json.dumps(dataclasses.asdict(about)))
        self._about = about
        self._file: BinaryIO = (folder / ROWS).open("wb", buffering=0)

    def put(self, step: int, found: Mapping[tuple[str, str, str], Mapping[str, float]]) -> None:
        """Append the row of a sample.

        Args:
            step: Training step.
            found: Statistics (see `shadow_run`) by parameter, route and decode; 0 is written for
                those that are missing.
        """
        row = [
            found[key][name] if (key := (one.name, *way)) in found else 0.0
            for way in self._about.ways
            for name in NAMES
            for one in self._about.trained
        ]
        self._file.write(np.array([step, *row], np.float64).tobytes())

    def close(self) -> None:
        self._file.close()


def read_rows(folder: Path) -> tuple[About, NDArray[np.int64], F64]:
    """Read the measurements of a training, without a last row that was cut off.

    Returns:
        Header, steps int64[n], and sums float64[n, ways, statistics, parameters].

    Raises:
        CalibrationError: Nothing was measured, or the files are damaged.
    """
    todo = "does the script call attach(model) of neuron_fabric.hook, and train"
    try:
        about = typed(About, read_object(folder / ABOUT))
        data = np.frombuffer((folder / ROWS).read_bytes(), np.uint8)
    except FileNotFoundError:
        raise CalibrationError("calibrate", "nothing was measured", todo) from None
    except (OSError, DataError) as error:
        raise CalibrationError(folder, f"is damaged ({error})", "calibrate again") from None
    shape = (len(about.ways), len(NAMES), len(about.trained))
    width = 1 + int(np.prod(shape))
    whole = data.size // (8 * width)
    if whole == 0:
        raise CalibrationError("calibrate", "no sample was taken", todo)
    rows = data[: whole * 8 * width].view(np.float64).reshape(whole, width)
    return about, rows[:, 0].astype(np.int64), rows[:, 1:].reshape(whole, *shape)


def samples_of(about: About, steps: NDArray[np.int64], sums: F64, warmup: int) -> Samples:
    """Return the samples of a training by phase; its first ``warmup`` steps are the warm-up.

    Args:
        about: Header of the measurements.
        steps: Step of each sample, int64[n].
        sums: Statistics float64[n, ways, statistics, parameters].
        warmup: Number of warm-up steps.
    """
    phases = {WARMUP: steps < warmup, STEADY: steps >= warmup}
    trained: Sequence[Parameter] = about.trained
    found = {
        Way(phase, route, decode): {
            name: np.ascontiguousarray(sums[inside, n, k]) for k, name in enumerate(NAMES)
        }
        for phase, inside in phases.items()
        if inside.any()
        for n, (route, decode) in enumerate(about.ways)
    }
    return Samples(
        about.workers,
        tuple(one.name for one in trained),
        tuple(one.elements for one in trained),
        {phase: steps[inside] for phase, inside in phases.items() if inside.any()},
        found,
    )
