# SPDX-License-Identifier: Apache-2.0
"""Files of jobs and reports; a damaged file gives one line."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from neuron_fabric.calibration.calibration_job import (
    CalibrationError,
    Job,
    Report,
    checked_metrics,
    job_of,
    read_report,
    write_job,
    write_report,
)


def test_reports_and_jobs(tmp_path: Path) -> None:
    assert job_of({}) is None
    with pytest.raises(CalibrationError, match=r"job.json cannot be read \(No such file"):
        job_of({"NF_CALIBRATE": str(tmp_path)})
    write_job(tmp_path, Job(every=3))
    assert job_of({"NF_CALIBRATE": str(tmp_path)}) == (tmp_path, Job(every=3))
    (tmp_path / "job.json").write_text('{"every": "x"}', encoding="utf-8")
    with pytest.raises(CalibrationError, match="every: 'x' is not an integer"):
        job_of({"NF_CALIBRATE": str(tmp_path)})
    assert read_report(tmp_path) is None
    write_report(tmp_path, Report({"a": math.nan, "b": 1.0}, 3, "x"))
    found = read_report(tmp_path)
    assert found is not None
    assert math.isnan(found.metrics["a"])
    assert replace(found, metrics={}) == Report({}, 3, "x")
    (tmp_path / "report.json").write_text(json.dumps({"metrics": 1}), encoding="utf-8")
    with pytest.raises(CalibrationError, match="is damaged"):
        read_report(tmp_path)
    assert checked_metrics({"a": np.float32(1), "b": 2}) == {"a": 1.0, "b": 2.0}
    with pytest.raises(CalibrationError, match="no metric is given"):
        checked_metrics({})
    with pytest.raises(CalibrationError, match="a is a str; give it a number"):
        checked_metrics({"a": "much"})
    with pytest.raises(CalibrationError, match="a is a int; give it a number"):
        checked_metrics({"a": 10**400})
    torch = pytest.importorskip("torch")
    with pytest.raises(CalibrationError, match="a is a Tensor; give it a number"):
        checked_metrics({"a": torch.ones(2)})
