# SPDX-License-Identifier: Apache-2.0
"""Files that `nf train calibrate` exchanges with a training that it has started.

`job.json` describes the training; the training leaves `report.json` (the metrics of `rt.report`)
and its measurements in the same folder. A script needs to know neither: it calls `attach`, takes
its seed from NF_SEED, and calls `rt.report(accuracy=...)` at its end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import InputError
from neuron_fabric.output import write_text
from neuron_fabric.typed import typed

CALIBRATE, SEED = "NF_CALIBRATE", "NF_SEED"
JOB, REPORT = "job.json", "report.json"


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
