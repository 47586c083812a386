# SPDX-License-Identifier: Apache-2.0
"""Tests of monitor logs: damaged files, unwritable folders, commands, and the HTML report; and of
recorded trainings: their content, the bench on them, and refused input. Damaged and hostile logs
give their readable part or one line, in bounded time."""

from __future__ import annotations

import argparse
import json
import lzma
import os
import re
import time
import xml.etree.ElementTree as ET
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_fabric import __main__
from neuron_fabric.errors import LineError, MonitorError
from neuron_fabric.monitor import Controller, StepReport, bench, monitor_command
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.monitor import page as monitor_page
from neuron_fabric.monitor.bench import LocalGroup, small_profile, small_region
from neuron_fabric.monitor.job_plan import Plan
from neuron_fabric.monitor.log import reason, replay
from neuron_fabric.monitor.recordings import (
    SUFFIX,
    decided,
    noise_of,
    readings,
    record,
    recordings,
    signal_lines,
    signal_values,
    with_loss,
)
from neuron_fabric.monitor.signals import Reason
from neuron_fabric.monitor.states import Decision, Mode, Status
from neuron_fabric.profile import write_profile
from neuron_fabric.profile.profile_types import Rule

NASTY = "</style><script>alert(1)</script>&\x1b[31m\u202e"
PROFILE = small_profile((small_region(NASTY, 900), small_region("body", 5000)), name=NASTY)
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record 330 steps with an inverted vote that only samples can detect; return the folder."""
    folder = tmp_path_factory.mktemp("run")
    bench.trained(3, "flipped_vote", [Reason.AGREEMENT], steps=330, folder=folder)
    return folder


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    monitor_command.add_arguments(parser)
    return monitor_command.run(parser.parse_args(words))


def checked_kinds(folder: Path) -> set[str]:
    """Check every record of a log against the JSON Schema; return the kinds of the records."""
    jsonschema = pytest.importorskip("jsonschema")
    valid = jsonschema.Draft202012Validator(
        json.loads(monitor_log.SCHEMA.read_text(encoding="utf-8"))
    )
    records = list(map(json.loads, (folder / monitor_log.NAME).read_text("utf-8").splitlines()))
    for one in records:
        valid.validate(one)
    for wrong in ({"more": 1}, {"mode": "HAPPY"}, {"kind": "x"}):
        assert not valid.is_valid({**records[1], **wrong})
    return {record["kind"] for record in records}


def test_every_line_is_what_the_schema_says(recorded: Path) -> None:
    kinds = {"run", "step", "sample", "decision", "capacity", "end"}
    assert checked_kinds(recorded) == kinds


def test_closed_rounds_and_late_ranks_are_in_the_log(tmp_path: Path, capsys: Capture) -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), folder=tmp_path)
    one.step_end(StepReport(0, closed=[(2, (1, 3)), (4, (3,))]))
    one.close()
    assert "closed" in checked_kinds(tmp_path)
    [run], left_out = monitor_log.read(tmp_path / monitor_log.NAME)
    assert [(one.step, one.bucket, one.late) for one in run.closed] == [
        (0, 2, (1, 3)),
        (0, 4, (3,)),
    ]
    assert not left_out
    assert command(str(tmp_path)) == 0
    assert "2 rounds closed without rank 1 for 1, rank 3 for 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("RUN", "conv         LOW -> DEMOTED: cosine"),
        ("replay RUN", "as recorded"),
        ("replay RUN --set floor=0.01 --set drop=0.02", "  - step    300 conv         LOW -> DEM"),
        ("replay RUN --without cosine", "what follows is a guess"),
    ],
)
def test_a_log_is_read_and_replayed(recorded: Path, capsys: Capture, words: str, said: str) -> None:
    assert command(*words.replace("RUN", str(recorded)).split()) == 0
    assert said in capsys.readouterr().out


def test_a_log_is_replayed_by_another_profile(
    recorded: Path, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "p.toml"
    other = replace(bench.profile(), monitor={"floor": 0.01}, rule=Rule(drop=0.02))
    write_profile(other, path)
    text = path.read_text(encoding="utf-8")
    words = "replay", str(recorded), "--profile", str(path)
    assert command(*words) == 0
    assert "  - step    300 conv         LOW -> DEMOTED" in capsys.readouterr().out
    for old, new, said in (
        ("stem", "stern", "regions head, conv, stem in the log, others in the plan"),
        ("floor = 0.01", "flour = 0.01", "field 'flour' is not known"),
        ("floor = 0.01", "off = ['luck'] #", "monitor.off: 'luck' is not a valid"),
        ("floor = 0.01", "off = 'cosine' #", "monitor.off: 'cosine' is not a list"),
    ):
        path.write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(LineError, match=said):
            command(*words)


def test_a_log_that_was_changed_does_not_replay(recorded: Path, tmp_path: Path) -> None:
    text = (recorded / monitor_log.NAME).read_text(encoding="utf-8")
    changed = text.replace('"target":"DEMOTED"', '"target":"LOCKED"')
    assert changed != text
    (tmp_path / "x").write_text(changed, encoding="utf-8")
    assert command("replay", str(tmp_path / "x")) == 1


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (b"", b'{"kind":"step","ste', "it is cut"),
        (b"", b'{"kind":"new"}\n', "its kind is not known"),
        (b"", b"[1]\n", "no JSON object"),
        (b"", b"\xff\n", "not UTF-8"),
        (b"", b'{"kind":"step","step":NaN}\n', "NaN is no number"),
        (b"", b'{"kind":"step","step":1}\n', "vector: not the 27 integers"),
        (b"", b'{"kind":"step","step":1,"vector":[1]}\n', "vector: not the 27"),
        (b'{"kind":"end","step":1,"why":""}\n', b"", "no run record stands before"),
        (b"", b'{"kind":"run","format":"x"}\n', "its format is not"),
    ],
)
def test_what_can_be_read_is_read(
    recorded: Path, tmp_path: Path, before: bytes, after: bytes, words: str
) -> None:
    data = (recorded / monitor_log.NAME).read_bytes()
    (tmp_path / "log").write_bytes(before + data + after)
    [segment], [why] = monitor_log.read(tmp_path / "log")
    assert words in why
    assert len(segment.steps) == 330
    assert replay(segment).differs is None


@pytest.fixture
def wrong_logs(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create damaged logs in the current folder, a FIFO, and a link "run" to a good log."""
    monkeypatch.chdir(tmp_path)
    Path("run").symlink_to(recorded)
    whole = (recorded / monitor_log.NAME).read_bytes()
    lines = whole.splitlines(True)
    files = {
        "empty": b"",
        "binary": os.urandom(3000),
        "long": b"x" * (monitor_log.MOST_LINE + 10),
        "newer": whole.replace(b'"version":1', b'"version":2'),
        "gap": b"".join(lines[:5] + lines[6:]),
    }
    for name, data in files.items():
        Path(name).write_bytes(data)
    os.mkfifo("fifo")


@pytest.mark.usefixtures("wrong_logs")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nowhere", "there is no such log"),
        ("replay", "no run is given"),
        ("signals", "nf train monitor signals: no run is given"),
        ("x y", "one word too many"),
        ("bench --recorded .", r"holds no recordings \(\*.jsonl.xz\); make them by"),
        ("record run", "--out: is not given; give the folder for"),
        ("record run --out nowhere", "nowhere is no folder; give"),
        ("record run run --out .", "two runs have one name; record them apart"),
        ("empty", "is empty"),
        ("binary", "no log of a run"),
        ("long", "more than 4,194,304 bytes"),
        ("newer", "of version 2, this program reads 1"),
        ("fifo", "is a FIFO"),
        ("replay gap", "step 4 is missing before step 5"),
        ("run --html no/page.html", "its folder does not exist"),
        ("replay run --set drop=2e9", "--set: .*must be above 0"),
        ("replay run --set dorp=0.2", "--set: .*field 'dorp' is not known"),
        ("replay run --set floor=0.5", "--set: .*monitor.floor is 0.5, above drop"),
        ("replay run --set hold=0.5", "--set: .*monitor.hold: 0.5 is not an integer"),
    ],
)
def test_wrong_words_logs_and_thresholds(words: str, said: str) -> None:
    with pytest.raises(LineError, match=said):
        command(*words.split())


@pytest.mark.usefixtures("wrong_logs")
def test_a_summary_names_the_steps_without_a_record(capsys: Capture) -> None:
    assert command("gap") == 0
    assert "steps without a record: 1 (step 4)" in capsys.readouterr().out
    assert command("run") == 0
    assert "without a record" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    ["replay x --set drop", "bench --without luck", "bench --seed -1", "bench --healthy 0"],
)
def test_words_that_the_parser_refuses(words: str) -> None:
    with pytest.raises(SystemExit):
        command(*words.split())


@pytest.mark.parametrize("way", ["a file", "a FIFO", "a folder"])
def test_a_folder_that_cannot_be_written_does_not_end_the_training(
    tmp_path: Path, capsys: Capture, way: str
) -> None:
    folder = tmp_path / "run"
    if way == "a file":
        folder.write_bytes(b"")
    else:
        folder.mkdir()
        made: Any = os.mkfifo if way == "a FIFO" else os.mkdir
        made(folder / monitor_log.NAME)
    one = Controller(PROFILE, LocalGroup(1).rank(0), folder=folder)
    for step in range(5):
        one.step_end(StepReport(step, losses=1.0))
    one.close()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "cannot be written" in said
    assert "the training goes on without a log" in said


def test_a_full_disk_does_not_end_the_training(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), folder=tmp_path)
    one.step_end(StepReport(0))
    one.routes()
    monkeypatch.setattr(os, "write", lambda file, data: len(data) // 2)
    for step in (1, 2):
        one.step_end(StepReport(step))
    one.close()
    monkeypatch.undo()
    assert "No space left on device" in capsys.readouterr().err


def test_half_a_line_of_a_killed_run_is_taken_off(recorded: Path, tmp_path: Path) -> None:
    whole = (recorded / monitor_log.NAME).read_bytes()
    log = tmp_path / monitor_log.NAME
    for cut in (whole[:-30], b"x" * 70_000, b""):
        log.write_bytes(cut)
        monitor_log.Log(tmp_path).close()
        assert log.read_bytes() == cut[: cut.rfind(b"\n") + 1]


# The page: one file, no network, sound.
def test_the_page_is_sound_and_offline(recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert command(str(recorded), "--html", str(out)) == 0
    text = out.read_text(encoding="utf-8")
    root = ET.fromstring(text)  # well-formed: every element closed, every attribute quoted
    assert not list(root.iter("script"))
    assert not [one for one in root.iter() if {"src", "href", "onload"} & set(one.attrib)]
    for word in ("http:", "https:", "//", "url(", "@import"):
        assert word not in text.replace("<!DOCTYPE html>", ""), word
    words = " ".join(root.itertext())
    for said in ("LOWBIT", "PARTIAL", "drop 0.3", "head", "G_BINARY", "cosine"):
        assert said in words, said
    bands = {one.get("class") for one in root.iter("rect")}
    assert bands >= {"band LOWBIT", "band DEMOTED"}


@pytest.mark.parametrize("states", [Mode, Status])
def test_every_state_has_a_colour_of_its_own(states: Any) -> None:
    """Check that states have different colours in the light and in the dark palette of the page."""
    css = monitor_page.STYLE.read_text(encoding="utf-8")
    fills = dict(re.findall(r"\.([A-Z0-9_]+) \{ fill: var\(--(\w+)\) \}", css))
    dark = css.index("prefers-color-scheme")
    for palette in (css[:dark], css[dark:]):
        colours = dict(re.findall(r"--(\w+): (#\w+)", palette))
        assert len({colours[fills[state]] for state in states}) == len(states)


def drawn(*traffic: dict[str, tuple[int, int]]) -> tuple[str, dict[str, ET.Element]]:
    """Return the page of a run with these bytes by route in its steps, and its charts by label."""
    steps = [monitor_log.Step(n, (), "LOWBIT", bytes=one) for n, one in enumerate(traffic)]
    run = monitor_log.Run(monitor_log.FORMAT, 1, "p", "", 2, 0, Plan((), 3), ())
    text = monitor_page.page([monitor_log.Segment(run, steps)])
    return text, {str(one.get("aria-label")): one for one in ET.fromstring(text).iter("svg")}


def test_bytes_sent_and_received_are_two_charts() -> None:
    _, found = drawn(*[{"FP32": (1000, 3000), "G_BINARY": (10, 20)}] * 4)
    heights = []
    for way, first, second in (("sent", "1 k", "10"), ("received", "3 k", "20")):
        chart = found[f"bytes a step {way}, by route"]
        titles = [one.text for one in chart.iter("title")]
        assert f"steps 0 to 0: {first}B a step {way}, FP32" in titles
        assert f"steps 0 to 0: {second}B a step {way}, G_BINARY" in titles
        heights.append(max(float(one.get("height", 0)) for one in chart.iter("rect")))
    assert heights[0] == pytest.approx(heights[1] / 3, abs=0.2)  # to one scale


def test_no_axes_without_data() -> None:
    """Check the page without losses, which has no scale, and without steps, which has no chart."""
    text, found = drawn()
    assert found.keys() <= {"None"}
    for said in ("No step was recorded", "No bytes were counted", "Nothing was sampled"):
        assert said in text
    text, found = drawn(*[{"FP32": (0, 0)}] * 40)
    assert "No bytes were counted" in text
    chart = found["states by step"]
    assert [one.text for one in chart.iter("text") if one.get("text-anchor") == "end"] == []
    assert not [one for one in chart.iter("path") if one.get("class") == "grid"]


def test_a_worker_that_stands_out_is_named(tmp_path: Path, capsys: Capture) -> None:
    """Check that an outlier among the workers is named on the terminal and on the page.

    An older log without agreements is replayed with the other signals.
    """
    bench.trained(3, "flipped_of_8", steps=290, folder=tmp_path)
    assert command(str(tmp_path)) == 0
    assert "of worker 0, limit -0.05" in capsys.readouterr().out
    assert checked_kinds(tmp_path)
    [older], _ = monitor_log.read(tmp_path / monitor_log.NAME)
    assert replay(older).differs is None
    root = ET.fromstring(monitor_page.page([older]))
    assert "against -0.05" in " ".join(root.itertext())
    assert [one for one in root.iter("svg") if one.get("aria-label") == "least agreement of conv"]
    older.run = replace(older.run, fields=older.run.fields[:24])
    older.steps = [replace(one, vector=one.vector[:24]) for one in older.steps]
    assert "No votes were compared" in monitor_page.page([older])
    again = replay(older)
    assert again.state.step == 289
    assert again.differs == 269


@pytest.mark.parametrize("steps", [1, 120])
def test_names_do_not_become_markup(tmp_path: Path, steps: int) -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), folder=tmp_path)
    for step in range(steps):
        cosines = dict.fromkeys(one.samples(), (0.0, 1.0, 1.0))
        one.step_end(StepReport(step, cosines=cosines))
    one.close()
    segments, _ = monitor_log.read(tmp_path / monitor_log.NAME)
    text = monitor_page.page(segments)
    ET.fromstring(text)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "no loss was observed" in text.lower()


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000), st.integers(2, 600))
def test_thinning_keeps_the_extremes(values: list[float], most: int) -> None:
    points = [(float(n), one) for n, one in enumerate(values)]
    kept = monitor_page.thinned(points, most)
    assert len(kept) <= max(most, 2)
    assert kept == sorted(kept)
    for end in (min, max):
        assert end(one for _, one in kept) == end(values)


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 10))
def test_ticks_are_few_and_inside(first: float, size: float, most: int) -> None:
    found = monitor_page.Chart.ticks((first, first + size), most)
    assert len(found) <= most + 1
    slack = 1e-6 * size + 1e-9 + 1e-15 * abs(first)
    assert all(first - slack <= one <= first + size + slack for one in found)


@pytest.mark.parametrize(
    ("value", "limit", "said"),
    [
        (-3.0, -2.0, "norm 0.125 of FP32's, limit 0.25"),
        (2.5, 2.0, "norm 5.66 of FP32's, limit 4"),
        (1030.0, 2.0, "norm 2^1030 of FP32's, limit 4"),  # the other norm is 0
    ],
)
def test_a_norm_is_said_as_a_ratio(value: float, limit: float, said: str) -> None:
    assert reason(Decision(1, "conv", "LOW", "DEMOTED", "norm", value, limit)) == said


# Recorded trainings.

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


def named(folder: Path, word: str) -> monitor_log.Segment:
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
    (tmp_path / monitor_log.NAME).write_bytes(text)
    again = monitor_log.read(record(tmp_path, tmp_path))[0][0]  # no such time is no time
    assert len(again.steps) == len(segment.steps)


def test_a_recording_decides_as_the_training_did(folder: Path, tmp_path: Path) -> None:
    found = bench.trained(1, "flipped_vote", steps=400, folder=tmp_path)
    segment = named(folder, "flipped")
    # Times are not kept, so the network's are not: no region is rejected for them.
    wanted = [one for one in found if one.signal != Reason.CAPACITY]
    assert [(one.step, one.region, one.target) for one in decided(segment)] == [
        (one.step, one.region, one.target) for one in wanted
    ]
    assert replay(segment).decisions == decided(segment)
    assert all(one.link_mib is None for one in readings(segment))
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size < (tmp_path / monitor_log.NAME).stat().st_size / 4


def test_what_is_said_of_false_alarms(folder: Path) -> None:
    healthy, flipped = named(folder, "healthy"), named(folder, "flipped")
    lines, good = bench.recorded_lines({"a": healthy})
    assert good
    assert f"  1 healthy runs, {STEPS} steps: 0 false alarms" in lines
    lines, good = bench.recorded_lines({"a": healthy, "b": flipped})
    assert not good  # the region and the job
    assert any(re.match(r"  false alarm: b step 2\d\d conv agreement -0.0", one) for one in lines)
    lines, good = bench.recorded_lines({"b": flipped}, [Reason.AGREEMENT, Reason.COSINE])
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
    assert (alarm.step, alarm.signal) == (152, Reason.LOSS_SPIKE)
    lines, _ = bench.recorded_lines({"a": segment})
    found = re.search(r"loss_spike   2   2  divergence +(\d+) +(\d+)  at the", lines[-1])
    assert found is not None
    assert 10 < int(found[1]) <= int(found[2]) < 60


def test_how_near_signals_came(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = named(folder, "flipped")
    rows = signal_values(segment)
    assert min(rows["conv", Reason.AGREEMENT]) < -0.05 < 0.05
    assert all(0.25 < one < 4 for one in rows["head", Reason.NORM])
    first = next(one.regions[0] for one in readings(segment) if one.regions[0].reference)
    assert first.norm is not None
    assert first.reference is not None
    ratio = 2 ** (first.norm - first.reference)
    assert rows["head", Reason.NORM][0] == pytest.approx(ratio)
    assert ("head", Reason.MARGIN) not in rows  # votes alone come back
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


# Damaged and hostile logs.

LINES: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record a log of a short run with a fault, whose lines the tests change; return its folder."""
    folder = tmp_path_factory.mktemp("run")
    bench.trained(3, "flipped_vote", [Reason.AGREEMENT], steps=60, folder=folder)
    LINES[:] = (folder / monitor_log.NAME).read_text(encoding="utf-8").splitlines()
    return folder


def used(path: Path) -> None:
    """Do all that the package does with a log; an error other than MonitorError fails."""
    with suppress(MonitorError):
        segments, left_out = monitor_log.read(path)
        assert all(len(one.splitlines()) == 1 for one in left_out)
        assert monitor_log.lines(segments)
        ET.fromstring(monitor_page.page(segments))
        for segment in segments[:3]:
            with suppress(MonitorError):
                replay(segment)
            with suppress(MonitorError):
                signal_lines("x", segment)


RUN = '{"kind":"run","format":"neuron-fabric-monitor","version":1}\n'
LARGE = {
    "empty lines": "\n",
    "runs that are none": RUN,
    "samples": '{"kind":"sample","step":1,"cosines":{}}\n',
}


def bounded(path: Path, name: str, size: int, seconds: float) -> None:
    """Check the processor time for a recording of ``size`` bytes of one repeated record.

    It is small when compressed.
    """
    first, line = LINES[0] + "\n", LARGE[name]
    text = first + line * ((size - len(first)) // len(line))
    path.write_bytes(lzma.compress(text.encode(), preset=1))
    assert path.stat().st_size < 30_000
    start = time.process_time()
    used(path)
    assert time.process_time() - start < seconds


WHOLE = pytest.param(1, marks=pytest.mark.nightly("20 s; by day an eighth of the size is read"))


@pytest.mark.parametrize("part", [8, WHOLE])
@pytest.mark.parametrize("name", LARGE)
def test_time_is_bounded(tmp_path: Path, name: str, part: int) -> None:
    """Check that reading a recording of the greatest size takes at most 20 s of processor time.

    The quick run reads an eighth of the size in an eighth of the time.
    """
    bounded(tmp_path / f"x{SUFFIX}", name, monitor_log.MOST_PLAIN // part, 20 / part)


def test_a_recording_that_is_too_large(tmp_path: Path, hostile_run: Path) -> None:
    """Check that a recording above the size limit is neither read nor written."""
    path = tmp_path / f"x{SUFFIX}"
    path.write_bytes(lzma.compress(b"\n" * (1 << 25), preset=0))
    start = time.process_time()
    with pytest.raises(MonitorError, match=r"x.jsonl.xz: holds more than 8,388,608 bytes; give a"):
        monitor_log.read(path)
    assert time.process_time() - start < 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(monitor_log, "MOST_PLAIN", 1000)
        with pytest.raises(MonitorError, match="bytes without compression; record a run of 1,000"):
            record(hostile_run, tmp_path)


def test_a_decoder_that_wants_much_memory(tmp_path: Path) -> None:
    path = tmp_path / f"x{SUFFIX}"
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}]
    path.write_bytes(lzma.compress(b"\n", filters=filters))
    with pytest.raises(MonitorError, match=r"is damaged \(Memory usage limit exceeded"):
        monitor_log.read(path)


def test_many_runs_and_broken_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for lines, what in (
        ([LINES[0]] * (monitor_log.MOST_RUNS + 1), "it has more than 1,000 run records"),
        ([LINES[0], *["x"] * (monitor_log.MOST_BROKEN + 1)], "more than 1,000 lines are no rec"),
    ):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        with pytest.raises(MonitorError, match=what):
            monitor_log.read(path)
        path.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
        assert monitor_log.read(path)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values inside of JSON data, as tuples of keys and indices."""
    below = list(value.items()) if isinstance(value, dict) else []
    below += list(enumerate(value[:3])) if isinstance(value, list) else []
    return [at] * bool(at) + [more for key, one in below for more in places(one, (*at, key))]


TEXTS = ["", "\x1b[31m</svg>\u202e", "x" * 2000, "FALLBACK", "nan"]
NUMBERS = [0, -1, 1e308, -1e308, 5e-324, 1 << 62, -(1 << 63), 1 << 63, 10**39]
OTHERS: list[object] = [None, True, [], {}, [[]], [{}], {"x": 1}, [1, 2]]
HOSTILE = st.sampled_from([*TEXTS, *NUMBERS, *OTHERS])
CHANGES = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), HOSTILE), min_size=1, max_size=3
)


def changed(path: Path, changes: list[tuple[int, int, Any]]) -> None:
    """Replace values in some lines of the log, most often in the first line, and use the result."""
    lines = list(LINES)
    for number, place, new in changes:
        row = number % len(lines) if number % 2 else 0
        record = json.loads(lines[row])
        if not (all_places := places(record)):
            continue
        *above, last = all_places[place % len(all_places)]
        inner = record
        for key in above:
            inner = inner[key]
        inner[last] = new
        lines[row] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    used(path)


NIGHTLY = pytest.mark.nightly("2,000 examples, two minutes; by day there are 40")


@pytest.mark.parametrize("examples", [40, pytest.param(2000, marks=NIGHTLY)])
def test_any_value_may_be_another(tmp_path: Path, examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(CHANGES)
    def hostile(changes: list[tuple[int, int, Any]]) -> None:
        changed(tmp_path / "log", changes)

    hostile()


@settings(max_examples=40, deadline=None)
@given(st.booleans(), st.integers(0, 10**6), st.binary(max_size=8), st.integers(0, 30))
def test_any_bytes_of_a_log_or_recording(
    tmp_path_factory: pytest.TempPathFactory, packed: bool, at: int, new: bytes, cut: int
) -> None:
    text = "\n".join([*LINES[:20], ""]).encode()
    data = lzma.compress(text) if packed else text
    at %= len(data)
    path = tmp_path_factory.mktemp("log") / (f"x{SUFFIX}" if packed else "x")
    path.write_bytes(data[:at] + new + data[at + cut :])
    used(path)
