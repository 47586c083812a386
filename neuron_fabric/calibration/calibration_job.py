# SPDX-License-Identifier: Apache-2.0
"""What `nf train calibrate` and a training that it has started tell each other: a folder.

`job.json` says what the training is to do; the training leaves `report.json` (what `rt.report` was
told) there, and what was measured (`row_file`). A script needs to know none of it: it calls
`attach`, takes its seed from NF_SEED, and calls `rt.report(accuracy=...)` at its end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import InputError
from neuron_fabric.output import write_text
from neuron_fabric.typed import typed

CALIBRATE, SEED = "NF_CALIBRATE", "NF_SEED"
JOB, REPORT = "job.json", "report.json"


class CalibrationError(InputError):
    """A calibration that cannot be, or wrong use of what `attach` gave."""


@dataclass(frozen=True)
class Job:
    """``every`` so many steps the packed reduction runs beside FP32, by all ``routes`` (None: that
    there are); 0: never. ``profile``: train by this file instead, whatever the script names.
    ``stop``: end the training once the loss of so many steps was observed."""

    every: int = 0
    profile: str | None = None
    stop: int | None = None
    routes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Report:
    """What a training has reached. ``steps``: backwards with a reduction. ``weights``: sha256 of
    all parameters of rank 0."""

    metrics: Mapping[str, float]
    steps: int
    weights: str
    sent: Mapping[str, int] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)


def write_job(folder: Path, job: Job) -> None:
    """For a training that is started with NF_CALIBRATE=``folder``. OSError."""
    write_text(folder / JOB, json.dumps(vars(job)))


def job_of(env: Mapping[str, str]) -> tuple[Path, Job] | None:
    """The folder and the job of this training, when `nf train calibrate` has started it."""
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
    """Numbers by name. CalibrationError for none, and for what is no finite number."""
    if not metrics:
        raise CalibrationError("report", "no metric is given", "write rt.report(accuracy=...)")
    found = {}
    for name, value in metrics.items():
        try:
            found[name] = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError, RuntimeError):  # the last: of torch
            what = f"{name} is a {type(value).__name__}"
            raise CalibrationError("report", what, "give it a number") from None
    return found


def write_report(folder: Path, report: Report) -> None:
    """Metrics that are NaN or infinite are written as null: a training may end so. OSError."""
    values = dict(vars(report))
    values["metrics"] = {
        name: one if math.isfinite(one) else None for name, one in report.metrics.items()
    }
    write_text(folder / REPORT, json.dumps(values))


@dataclass(frozen=True)
class _Read:
    metrics: Mapping[str, float | None]
    steps: int
    weights: str
    sent: Mapping[str, int]
    received: Mapping[str, int]


def read_report(folder: Path) -> Report | None:
    """What a training has reported; None: nothing. CalibrationError for what is damaged."""
    try:
        read = typed(_Read, read_object(folder / REPORT))
    except FileNotFoundError:
        return None
    except (OSError, DataError) as error:
        raise CalibrationError(folder / REPORT, f"is damaged ({error})", "run again") from None
    metrics = {name: math.nan if one is None else one for name, one in read.metrics.items()}
    return Report(metrics, read.steps, read.weights, read.sent, read.received)
