# SPDX-License-Identifier: Apache-2.0
"""Logs: damaged files, folders that cannot be written, commands, and the HTML report."""

from __future__ import annotations

import argparse
import json
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuron_fabric.errors import LineError, MonitorError
from neuron_fabric.monitor import Controller, StepReport, bench, monitor_command
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.monitor import page as monitor_page
from neuron_fabric.monitor.bench import LocalGroup, small_profile, small_region
from neuron_fabric.monitor.job_plan import Plan, Signal
from neuron_fabric.monitor.log import reason, replay
from neuron_fabric.monitor.states import Decision, Mode, Status

NASTY = "</style><script>alert(1)</script>&\x1b[31m\u202e"
PROFILE = small_profile((small_region(NASTY, 900), small_region("body", 5000)), name=NASTY)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record 330 steps with an inverted vote that only samples can detect; return the folder."""
    folder = tmp_path_factory.mktemp("run")
    bench.trained(3, "flipped_vote", [Signal.AGREEMENT], steps=330, folder=folder)
    return folder


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    monitor_command.add_arguments(parser)
    return monitor_command.run(parser.parse_args(words))


def test_every_line_is_what_the_schema_says(recorded: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(monitor_log.SCHEMA.read_text(encoding="utf-8"))
    valid = jsonschema.Draft202012Validator(schema)
    lines = (recorded / monitor_log.NAME).read_text(encoding="utf-8").splitlines()
    kinds = set()
    for line in lines:
        record = json.loads(line)
        valid.validate(record)
        kinds.add(record["kind"])
    assert kinds == {"run", "step", "sample", "decision", "capacity", "end"}
    record = json.loads(lines[1])
    for wrong in ({**record, "more": 1}, {**record, "mode": "HAPPY"}, {**record, "kind": "x"}):
        assert not valid.is_valid(wrong)


def test_a_log_is_read_and_replayed(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(str(recorded)) == 0
    said = capsys.readouterr().out
    assert "conv         LOW -> DEMOTED: cosine" in said
    assert command("replay", str(recorded)) == 0
    assert "as recorded" in capsys.readouterr().out
    assert command("replay", str(recorded), "--set", "floor=0.01", "--set", "drop=0.02") == 0
    assert "  - step    300 conv         LOW -> DEMOTED" in capsys.readouterr().out
    assert command("replay", str(recorded), "--without", "cosine") == 0
    assert "what follows is a guess" in capsys.readouterr().out


PROFILE_TOML = """
format = "neuron-fabric-profile"
version = 1
name = "other"
[model]
fingerprint = "sha256:1"
parameters = 52956
[monitor]
floor = 0.01
[rule]
drop = 0.02
"""
REGION_TOML = """
[[region]]
name = "{name}"
kind = "rest"
match = ["x"]
elements = 1000
steady = {{ route = "G_BINARY" }}
"""


def test_a_log_is_replayed_by_another_profile(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("head", "conv", "stem")
    text = PROFILE_TOML + "".join(REGION_TOML.format(name=name) for name in names)
    (tmp_path / "p.toml").write_text(text, encoding="utf-8")
    assert command("replay", str(recorded), "--profile", str(tmp_path / "p.toml")) == 0
    assert "  - step    300 conv         LOW -> DEMOTED" in capsys.readouterr().out
    for wrong, said in (
        (text.replace("stem", "stern"), "regions head, conv, stem in the log, others in the plan"),
        (text.replace("floor = 0.01", "flour = 0.01"), "field 'flour' is not known"),
        (text.replace("floor = 0.01", "off = ['luck']"), "monitor.off: 'luck' is not a valid"),
    ):
        (tmp_path / "p.toml").write_text(wrong, encoding="utf-8")
        with pytest.raises(LineError, match=said):
            command("replay", str(recorded), "--profile", str(tmp_path / "p.toml"))


def test_a_log_that_was_changed_does_not_replay(recorded: Path, tmp_path: Path) -> None:
    text = (recorded / monitor_log.NAME).read_text(encoding="utf-8")
    changed = text.replace('"target":"DEMOTED"', '"target":"LOCKED"')
    assert changed != text
    (tmp_path / "x").write_text(changed, encoding="utf-8")
    assert command("replay", str(tmp_path / "x")) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:-40], "it is cut"),
        (lambda data: data + b'{"kind":"new"}\n', "its kind is not known"),
        (lambda data: data + b"[1]\n", "no JSON object"),
        (lambda data: data + b"\xff\n", "not UTF-8"),
        (lambda data: data + b'{"kind":"step","step":NaN}\n', "NaN is no number"),
        (lambda data: data + b'{"kind":"step","step":1}\n', "vector: not the 27 integers"),
        (lambda data: data + b'{"kind":"step","step":1,"vector":[1]}\n', "vector: not the 27"),
        (lambda data: b'{"kind":"end","step":1,"why":""}\n' + data, "no run record stands before"),
        (lambda data: data + b'{"kind":"run","format":"x"}\n', "its format is not"),
    ],
)
def test_what_can_be_read_is_read(
    recorded: Path, tmp_path: Path, change: Callable[[bytes], bytes], words: str
) -> None:
    data = (recorded / monitor_log.NAME).read_bytes()
    (tmp_path / "log").write_bytes(change(data))
    [segment], [why] = monitor_log.read(tmp_path / "log")
    assert words in why
    assert len(segment.steps) == 330
    assert replay(segment).differs is None


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=3))
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_damage_gives_a_log_or_one_line(
    recorded: Path, tmp_path: Path, at: int, new: bytes
) -> None:
    data = b"".join((recorded / monitor_log.NAME).read_bytes().splitlines(True)[:40])
    at %= len(data)
    (tmp_path / "log").write_bytes(data[:at] + new + data[at + 1 :])
    with suppress(MonitorError):  # anything else is a traceback
        segments, _ = monitor_log.read(tmp_path / "log")
        ET.fromstring(monitor_page.page(segments))
        for segment in segments:
            replay(segment)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "there is no such log"),
        (["replay"], "no run is given"),
        (["x", "y"], "one word too many"),
    ],
)
def test_wrong_words(tmp_path: Path, words: list[str], said: str) -> None:
    with pytest.raises(MonitorError, match=said):
        command(*words)


def test_wrong_logs_and_thresholds(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "binary").write_bytes(os.urandom(3000))
    (tmp_path / "long").write_bytes(b"x" * (monitor_log.MOST_LINE + 10))
    newer = (recorded / monitor_log.NAME).read_text(encoding="utf-8")
    newer = newer.replace('"version":1', '"version":2')
    (tmp_path / "newer").write_text(newer, encoding="utf-8")
    os.mkfifo(tmp_path / "fifo")
    for name, said in (
        ("empty", "is empty"),
        ("binary", "no log of a run"),
        ("long", "more than 4,194,304 bytes"),
        ("newer", "of version 2, this program reads 1"),
        ("fifo", "is a FIFO"),
    ):
        with pytest.raises(MonitorError, match=said):
            command(str(tmp_path / name))
    for setting, said in (
        ("drop=2e9", "must be above 0"),
        ("dorp=0.2", "field 'dorp' is not known"),
        ("floor=0.5", "monitor.floor is 0.5, above drop"),
        ("hold=0.5", "monitor.hold: 0.5 is not an integer"),
    ):
        with pytest.raises(MonitorError, match=f"--set: .*{said}"):
            command("replay", str(recorded), "--set", setting)
    for words in (
        *(["replay", "x", "--set", "drop"], ["bench", "--without", "luck"]),
        *(["bench", "--seed", "-1"], ["bench", "--healthy", "-1"], ["bench", "--healthy", "0"]),
    ):
        with pytest.raises(SystemExit):
            command(*words)


def test_a_step_is_missing(recorded: Path, tmp_path: Path) -> None:
    lines = (recorded / monitor_log.NAME).read_bytes().splitlines(True)
    (tmp_path / "log").write_bytes(b"".join(lines[:5] + lines[6:]))
    with pytest.raises(MonitorError, match="step 4 is missing before step 5"):
        command("replay", str(tmp_path / "log"))


@pytest.mark.parametrize("way", ["a file", "a FIFO", "a folder"])
def test_a_folder_that_cannot_be_written_does_not_end_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
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
    bands = [one.get("class") for one in root.iter("rect")]
    assert "band LOWBIT" in bands
    assert "band DEMOTED" in bands


@pytest.mark.parametrize("states", [Mode, Status])
def test_every_state_has_a_colour_of_its_own(states: Any) -> None:
    """Check both palettes."""
    css = monitor_page.STYLE.read_text(encoding="utf-8")
    fills = dict(re.findall(r"\.([A-Z0-9_]+) \{ fill: var\(--(\w+)\) \}", css))
    dark = css.index("prefers-color-scheme")
    for palette in (css[:dark], css[dark:]):
        colours = dict(re.findall(r"--(\w+): (#\w+)", palette))
        assert len({colours[fills[state]] for state in states}) == len(states)


def charts(text: str) -> dict[str, ET.Element]:
    """Return the charts of a page by their label."""
    return {str(one.get("aria-label")): one for one in ET.fromstring(text).iter("svg")}


def test_bytes_sent_and_received_are_two_charts() -> None:
    plan = Plan((), 3)
    steps = [
        monitor_log.Step(n, (), "LOWBIT", bytes={"FP32": (1000, 3000), "G_BINARY": (10, 20)})
        for n in range(4)
    ]
    run = monitor_log.Run(monitor_log.FORMAT, 1, "p", "", 2, 0, plan, ())
    found = charts(monitor_page.page([monitor_log.Segment(run, steps)]))
    heights = []
    for way, first, second in (("sent", "1 k", "10"), ("received", "3 k", "20")):
        chart = found[f"bytes a step {way}, by route"]
        titles = [one.text for one in chart.iter("title")]
        assert f"steps 0 to 0: {first}B a step {way}, FP32" in titles
        assert f"steps 0 to 0: {second}B a step {way}, G_BINARY" in titles
        heights.append(max(float(one.get("height", 0)) for one in chart.iter("rect")))
    assert heights[0] == pytest.approx(heights[1] / 3, abs=0.2)  # to one scale


def test_no_axes_without_data() -> None:
    """Check that states have no scale without losses, and that there is no chart without steps."""
    plan = Plan((), 3)
    run = monitor_log.Run(monitor_log.FORMAT, 1, "p", "", 2, 0, plan, ())
    text = monitor_page.page([monitor_log.Segment(run)])
    assert charts(text).keys() <= {"None"}
    for said in ("No step was recorded", "No bytes were counted", "Nothing was sampled"):
        assert said in text
    steps = [monitor_log.Step(n, (), "LOWBIT", bytes={"FP32": (0, 0)}) for n in range(40)]
    text = monitor_page.page([monitor_log.Segment(run, steps)])
    assert "No bytes were counted" in text
    chart = charts(text)["states by step"]
    assert [one.text for one in chart.iter("text") if one.get("text-anchor") == "end"] == []
    assert not [one for one in chart.iter("path") if one.get("class") == "grid"]


def test_a_worker_that_stands_out_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check an outlier on the terminal, on the page and in a replay; an older log without
    agreements is replayed with the other signals."""
    jsonschema = pytest.importorskip("jsonschema")
    bench.trained(3, "flipped_of_8", steps=290, folder=tmp_path)
    assert command(str(tmp_path)) == 0
    assert "of worker 0, limit -0.05" in capsys.readouterr().out
    segments, _ = monitor_log.read(tmp_path / monitor_log.NAME)
    assert replay(segments[0]).differs is None
    root = ET.fromstring(monitor_page.page(segments))
    assert "against -0.05" in " ".join(root.itertext())
    assert [one for one in root.iter("svg") if one.get("aria-label") == "least agreement of conv"]
    schema = json.loads(monitor_log.SCHEMA.read_text(encoding="utf-8"))
    for line in (tmp_path / monitor_log.NAME).read_text(encoding="utf-8").splitlines():
        jsonschema.Draft202012Validator(schema).validate(json.loads(line))
    older = segments[0]
    older.run = replace(older.run, fields=older.run.fields[:24])
    older.steps = [replace(one, vector=one.vector[:24]) for one in older.steps]
    assert "No votes were compared" in monitor_page.page([older])
    again = replay(older)
    assert again.state.step == 289
    assert again.differs == 269


def test_names_do_not_become_markup(tmp_path: Path) -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), folder=tmp_path)
    for step in range(120):
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


def test_a_page_of_nothing(tmp_path: Path) -> None:
    one = Controller(PROFILE, LocalGroup(1).rank(0), folder=tmp_path)
    one.step_end(StepReport(0))
    one.routes()
    segments, _ = monitor_log.read(tmp_path / monitor_log.NAME)
    ET.fromstring(monitor_page.page(segments))


def test_a_page_that_cannot_be_written(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="its folder does not exist"):
        command(str(recorded), "--html", str(tmp_path / "no" / "page.html"))


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
