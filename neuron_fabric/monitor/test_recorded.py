# SPDX-License-Identifier: Apache-2.0
"""Tests of recorded trainings: their content, the bench on them, and refused input."""

from __future__ import annotations

import lzma
import re
from dataclasses import replace
from pathlib import Path

import pytest

from neuron_fabric import __main__
from neuron_fabric.errors import MonitorError
from neuron_fabric.monitor import bench, log
from neuron_fabric.monitor.log import replay
from neuron_fabric.monitor.recordings import (
    SUFFIX,
    decided,
    noise_of,
    readings,
    record,
    recordings,
    signal_values,
    with_loss,
)
from neuron_fabric.monitor.signals import Signal
from neuron_fabric.monitor.test_monitor_log import command

STEPS = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a healthy training, and one with an inverted vote from step 251; return the folder."""
    runs = tmp_path_factory.mktemp("check")
    out = tmp_path_factory.mktemp("recordings")
    bench.trained(1, steps=STEPS, folder=runs / "healthy")
    bench.trained(1, "flipped_vote", steps=400, folder=runs / "flipped")
    for run in ("healthy", "flipped"):
        record(runs / run, out)
    return out


def named(folder: Path, word: str) -> log.Segment:
    return next(one for name, one in recordings(folder).items() if word in name)


def test_numbers_of_other_regions_are_one_line(folder: Path, tmp_path: Path) -> None:
    """Check that a log whose numbers do not fit the regions of its plan is refused in one line.

    A log without fields of the network's times can still be recorded.
    """
    segment = named(folder, "healthy")
    plan = replace(segment.run.plan, regions=segment.run.plan.regions[:1])
    with pytest.raises(MonitorError, match="signals: the log's numbers are of other regions"):
        readings(replace(segment, run=replace(segment.run, plan=plan)))
    [path] = [one for one in folder.iterdir() if "healthy" in one.name]
    text = lzma.decompress(path.read_bytes()).replace(b'"link_latency"', b'"x"')
    (tmp_path / log.NAME).write_bytes(text)
    again = log.read(record(tmp_path, tmp_path))[0][0]  # no such time is no time
    assert len(again.steps) == len(segment.steps)


def test_a_recording_decides_as_the_training_did(folder: Path, tmp_path: Path) -> None:
    found = bench.trained(1, "flipped_vote", steps=400, folder=tmp_path)
    segment = named(folder, "flipped")
    # Times are not kept, so the network's are not: no region is rejected for them.
    wanted = [one for one in found if one.signal != Signal.CAPACITY]
    assert [(one.step, one.region, one.target) for one in decided(segment)] == [
        (one.step, one.region, one.target) for one in wanted
    ]
    assert replay(segment).decisions == decided(segment)
    assert all(one.link_mib is None for one in readings(segment))
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size < (tmp_path / log.NAME).stat().st_size / 4


def test_what_is_said_of_false_alarms(folder: Path) -> None:
    healthy, flipped = named(folder, "healthy"), named(folder, "flipped")
    lines, good = bench.recorded_lines({"a": healthy})
    assert good
    assert f"  1 healthy runs, {STEPS} steps: 0 false alarms" in lines
    lines, good = bench.recorded_lines({"a": healthy, "b": flipped})
    assert not good  # the region and the job
    assert any(re.match(r"  false alarm: b step 2\d\d conv agreement -0.0", one) for one in lines)
    lines, good = bench.recorded_lines({"b": flipped}, [Signal.AGREEMENT, Signal.COSINE])
    assert not [one for one in lines if "agreement -" in one]


def test_faults_of_the_loss(folder: Path) -> None:
    segment = named(folder, "healthy")
    assert 0.02 < noise_of(segment) < 0.1
    spiked = with_loss(segment, 150, [6.0] * 10)
    assert len(spiked.steps) == 160
    for at, (before, after) in enumerate(zip(readings(segment), readings(spiked), strict=False)):
        assert before.loss is not None
        wanted = before.loss * (6 if at >= 150 else 1)
        assert after.loss == pytest.approx(wanted, rel=1e-5)
    [alarm] = bench.alarms(decided(spiked))
    assert (alarm.step, alarm.signal) == (152, Signal.LOSS_SPIKE)
    lines, _ = bench.recorded_lines({"a": segment})
    found = re.search(r"loss_spike   2   2  divergence +(\d+) +(\d+)  at the", lines[-1])
    assert found is not None
    assert 10 < int(found[1]) <= int(found[2]) < 60


def test_how_near_signals_came(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = named(folder, "flipped")
    rows = signal_values(segment)
    assert min(rows["conv", Signal.AGREEMENT]) < -0.05 < 0.05
    assert all(0.25 < one < 4 for one in rows["head", Signal.NORM])
    first = next(one.regions[0] for one in readings(segment) if one.regions[0].reference)
    assert first.norm is not None
    assert first.reference is not None
    ratio = 2 ** (first.norm - first.reference)
    assert rows["head", Signal.NORM][0] == pytest.approx(ratio)
    assert ("head", Signal.MARGIN) not in rows  # votes alone come back
    path = next(folder.glob(f"*flipped{SUFFIX}"))
    assert command("signals", str(path)) == 0
    out = capsys.readouterr().out
    assert "400 steps, 4 workers; low-bit: head, conv, stem" in out
    assert out.startswith(path.name.removesuffix(SUFFIX))  # not the name of the folder
    assert re.search(r"conv +agreement +\d+ steps +-0\.\d+ .* limit >= -0.05  worker \d in", out)


def test_a_damaged_recording_is_one_line(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / f"cut{SUFFIX}"
    for data in (next(folder.glob(f"*healthy{SUFFIX}")).read_bytes()[:-40], b"no xz at all"):
        path.write_bytes(data)
        for words in (("bench", "--recorded", str(tmp_path)), ("signals", str(path))):
            with pytest.raises(MonitorError, match=r"cut.jsonl.xz: is damaged \("):
                command(*words)


SHIPPED = Path(__file__).parents[2] / "captures" / "trainings"


@pytest.mark.skipif(not SHIPPED.is_dir(), reason="the repository alone has recordings")
@pytest.mark.parametrize("name", ["digits-fp32-FP32-7-torch", "pairs100-guided-*-7-torch"])
def test_a_shipped_recording_is_replayed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that the replay of a recording has a reference: decisions by the recorded thresholds.

    A recording holds no decisions itself.
    """
    (path,) = SHIPPED.glob(f"{name}{SUFFIX}")
    assert __main__.main(["monitor", "replay", str(path)]) == 0
    assert "by its own thresholds: a recording holds none" in capsys.readouterr().out
    assert __main__.main(["monitor", "replay", str(path), "--set", "drop=0.9"]) == 0
    said = capsys.readouterr().out
    if "guided" in name:
        assert "on other decisions than by its own thresholds:\n  - step     19 job" in said
