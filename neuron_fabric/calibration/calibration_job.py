# SPDX-License-Identifier: Apache-2.0
"""Files that `nf train calibrate` exchanges with a training that it has started.

`job.json` describes the training; the training leaves `report.json` (the metrics of `rt.report`)
and its measurements in the same folder: a header, and a row of float64 for each sample. A training
that is stopped or killed leaves all rows that were whole. A script needs to know neither: it calls
`attach`, takes its seed from NF_SEED, and calls `rt.report(accuracy=...)` at its end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import InputError
from neuron_fabric.output import write_text
from neuron_fabric.profile.model_sketch import Parameter
from neuron_fabric.profile.profile_types import (
    DECODES,
    GRANULARITIES,
    Phase,
    ValidFor,
    decode_name,
)
from neuron_fabric.profile.samples import F64, MORE, SUMS, Samples, Way
from neuron_fabric.typed import typed

CALIBRATE, SEED = "NF_CALIBRATE", "NF_SEED"
JOB, REPORT = "job.json", "report.json"
ABOUT, ROWS = "about.json", "rows.f64"
VOTE_DECODES = tuple(decode_name(d, g) for g in GRANULARITIES for d in DECODES)
NAMES = (*SUMS, *MORE)
"""Statistics of a row, see `shadow_run`."""


class CalibrationError(InputError):
    """A calibration is impossible, or the session that `attach` returns is used wrongly."""


@dataclass(frozen=True)
class Job:
    """Job of a training, the content of `job.json`.

    Attributes:
        every: Steps between samples of the packed reduction; 0 for none.
        profile: Profile to train with instead of the one in the script.
        stop: End the training once this many losses were observed.
        routes: Routes to measure; None for all.
    """

    every: int = 0
    profile: str | None = None
    stop: int | None = None
    routes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Report:
    """Report of a training, the content of `report.json`.

    Attributes:
        metrics: Metrics by name; NaN for a value that was not finite.
        steps: Backward passes with a reduction.
        weights: sha256 of all parameters of rank 0.
        sent: Bytes sent by route.
        received: Bytes received by route.
    """

    metrics: Mapping[str, float]
    steps: int
    weights: str
    sent: Mapping[str, int] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)


def write_job(folder: Path, job: Job) -> None:
    """Write the job to ``folder``, which the training gets as NF_CALIBRATE. Raises OSError."""
    write_text(folder / JOB, json.dumps(vars(job)))


def job_of(env: Mapping[str, str]) -> tuple[Path, Job] | None:
    """Return folder and job of this training, or None if NF_CALIBRATE is not set.

    Raises:
        CalibrationError: The job cannot be read.
    """
    name = env.get(CALIBRATE)
    if not name:
        return None
    folder = Path(name)
    try:
        return folder, typed(Job, read_object(folder / JOB))
    except (OSError, DataError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        what = f"its {JOB} cannot be read ({why})"
        raise CalibrationError(folder, what, "leave NF_CALIBRATE to `nf train calibrate`") from None


def checked_metrics(metrics: Mapping[str, object]) -> dict[str, float]:
    """Return the metrics with values converted to float.

    Raises:
        CalibrationError: There is no metric, or a value is not a number.
    """
    if not metrics:
        raise CalibrationError("report", "no metric is given", "write rt.report(accuracy=...)")
    found = {}
    for name, value in metrics.items():
        try:
            found[name] = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: torch
            what = f"{name} is a {type(value).__name__}"
            raise CalibrationError("report", what, "give it a number") from None
    return found


def write_report(folder: Path, report: Report) -> None:
    """Write `report.json`; metrics that are not finite are written as null. Raises OSError."""
    values = dict(vars(report))
    values["metrics"] = {
        name: one if math.isfinite(one) else None for name, one in report.metrics.items()
    }
    write_text(folder / REPORT, json.dumps(values))


def read_report(folder: Path) -> Report | None:
    """Return the report in a training's folder, or None if there is none.

    Raises:
        CalibrationError: The file is damaged.
    """
    try:
        values = read_object(folder / REPORT)
        found = typed(dict[str, float | None], values.pop("metrics", None), "metrics")
        report = typed(Report, {**values, "metrics": {}})
    except FileNotFoundError:
        return None
    except (OSError, DataError) as error:
        raise CalibrationError(folder / REPORT, f"is damaged ({error})", "run again") from None
    metrics = {name: math.nan if one is None else one for name, one in found.items()}
    return replace(report, metrics=metrics)


# Measurements of a training.


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
        write_text(folder / ABOUT, json.dumps(asdict(about)))
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
    phases = {Phase.WARMUP: steps < warmup, Phase.STEADY: steps >= warmup}
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
