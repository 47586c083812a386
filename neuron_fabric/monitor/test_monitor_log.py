# SPDX-License-Identifier: Apache-2.0
"""Tests of monitor logs: damaged files, unwritable folders, commands, and the HTML report."""

from __future__ import annotations

import argparse
import json
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuron_fabric.errors import LineError
from neuron_fabric.monitor import Controller, StepReport, bench, monitor_command
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.monitor import page as monitor_page
from neuron_fabric.monitor.bench import LocalGroup, small_profile, small_region
from neuron_fabric.monitor.job_plan import Plan
from neuron_fabric.monitor.log import reason, replay
from neuron_fabric.monitor.signals import Signal
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
    bench.trained(3, "flipped_vote", [Signal.AGREEMENT], steps=330, folder=folder)
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
    for record in records:
        valid.validate(record)
    for wrong in ({"more": 1}, {"mode": "HAPPY"}, {"kind": "x"}):
        assert not valid.is_valid({**records[1], **wrong})
    return {record["kind"] for record in records}


def test_every_line_is_what_the_schema_says(recorded: Path) -> None:
    kinds = {"run", "step", "sample", "decision", "capacity", "end"}
    assert checked_kinds(recorded) == kinds


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
