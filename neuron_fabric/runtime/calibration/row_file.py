# SPDX-License-Identifier: Apache-2.0
"""What a calibration has measured, as it goes: a header, and a row of float64 for every sample.

A training that is stopped, or killed, leaves all rows that were whole; `read_rows` makes samples of
them, which `neuron_fabric.profile.samples` keeps.
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

from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError, read_object
from neuron_fabric.output import write_text
from neuron_fabric.profile.model_sketch import Parameter
from neuron_fabric.profile.profile_types import STEADY, WARMUP, ValidFor
from neuron_fabric.profile.samples import Samples, Way
from neuron_fabric.runtime.calibration.calibration_job import CalibrationError
from neuron_fabric.runtime.calibration.shadow_sums import NAMES
from neuron_fabric.typed import typed

ABOUT, ROWS = "about.json", "rows.f64"
DECODES = ("vote", "net")
LEAST_WARMUP = 3
"""As `attach`: DDP makes its buckets anew after the first step."""
F64 = NDArray[np.float64]


@dataclass(frozen=True)
class About:
    """``steps``: of the whole training, where the script has said it. ``valid_for``: conditions of
    the training, as far as they were told or seen."""

    workers: int
    every: int
    routes: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    steps: int | None = None
    valid_for: ValidFor = field(default_factory=ValidFor)

    @property
    def ways(self) -> list[tuple[str, str]]:
        """Route and decode, in the order of a row; integer codes have one decoding alone."""
        return [
            (route, decode)
            for route in self.routes
            for decode in (("vote",) if Route(route).codes else DECODES)
        ]

    @property
    def trained(self) -> list[Parameter]:
        """The parameters of a row, in their order."""
        return [one for one in self.parameters if one.trainable]


class RowWriter:
    """Rank 0's. OSError."""

    def __init__(self, folder: Path, about: About) -> None:
        values = dataclasses.asdict(about)
        write_text(folder / ABOUT, json.dumps(values))
        self._shape = (len(about.ways), len(NAMES), len(about.trained))
        self._ways = {way: n for n, way in enumerate(about.ways)}
        self._places = {one.name: n for n, one in enumerate(about.trained)}
        self._file: BinaryIO = (folder / ROWS).open("wb", buffering=0)

    def put(self, step: int, found: Mapping[tuple[str, str, str], Mapping[str, float]]) -> None:
        """A sample: sums by parameter, route and decode."""
        row = np.zeros(self._shape, np.float64)
        for (name, route, decode), sums in found.items():
            row[self._ways[route, decode], :, self._places[name]] = [sums[one] for one in NAMES]
        self._file.write(np.concatenate([[float(step)], row.reshape(-1)]).tobytes())

    def close(self) -> None:
        self._file.close()


def read_rows(folder: Path) -> tuple[About, NDArray[np.int64], F64]:
    """Header, steps int64[n], and sums float64[n, ways, sums, parameters]; what was cut is left
    out. CalibrationError where nothing was measured."""
    todo = "does the script call attach(model) of neuron_fabric.runtime, and train"
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


def warmup_of(warmup: float, steps: int) -> int:
    """Steps in FP32 of a training of ``steps``, as `attach` counts them."""
    return max(LEAST_WARMUP, round(warmup * steps) if warmup < 1 else round(warmup))


def samples_of(about: About, steps: NDArray[np.int64], sums: F64, warmup: int) -> Samples:
    """By phase: warm-up is the first ``warmup`` steps."""
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
