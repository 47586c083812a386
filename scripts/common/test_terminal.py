# SPDX-License-Identifier: Apache-2.0
"""Output on pseudo-terminals, on pipes, and in between."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import SimpleNamespace

import pytest

from scripts.build import build_cache
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST, TOP, BuildSpec, RunRecord, RunSpec, Verdict
from scripts.common.terminal import TextTable, clock
from scripts.farm import replay_run
from scripts.run import schedule
from scripts.run.schedule import RunProgress

FAKE = """
import sys, time
from neuron_fabric.errors import say
from scripts.common import interrupt, terminal
from scripts.common.records import *
from scripts.run.schedule import RunProgress, show

PAUSE = float(sys.argv[1])
build = BuildSpec("icarus", TOP, FILELIST)
names = ("one", "two", "three", "four", "five")
specs = [RunSpec(build, "test_fake", (name,)) for name in names]

def run(spec):
    time.sleep(PAUSE)
    if spec.tests != ("two",):
        return RunRecord.of(spec, Verdict(True), seconds=PAUSE)
    cause = "scoreboard: the line differs from that of the reducer in 3 of 64 bytes"
    bad = Verdict(False, FailureKind.MISMATCH, cause)
    rerun = ".venv/bin/nf run test_fake::two --sim icarus --build edge_crowded --seed 7"
    return RunRecord.of(spec, bad, seconds=PAUSE, rerun=rerun, log="build/runs/two/run.log")

with terminal.installed(), interrupt.ended_in_order():
    say("nf: a fake run", file=sys.stderr)
    seconds = {spec.id: PAUSE for spec in specs}
    records = RunProgress(specs, 1, show, seconds, {build: None}).run(run)
    say(f"===== {len(records)} runs =====")
"""
CONTROL = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


def on_pipe(words: Sequence[str], **env: str) -> str:
    """Return both outputs of a command on a pipe."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    ).stdout


def environment(more: dict[str, str]) -> dict[str, str]:
    """Return the environment without variables that decide about colours and sizes."""
    gone = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")
    return {k: v for k, v in os.environ.items() if k not in gone} | {"TERM": "xterm"} | more


def on_terminal(
    words: Sequence[str], then: Callable[[int, str], None] | None = None, **env: str
) -> str:
    """Return the raw output of a command on a pseudo-terminal.

    Args:
        words: Arguments of the interpreter.
        then: Called with the terminal and the output so far, after each piece of output.
        env: Variables of the command.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", 40, 200, 0, 0))
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment(env),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C is a signal there
    )
    os.close(slave)
    out = b""
    with suppress(OSError):  # the other end is closed
        while piece := os.read(master, 65536):
            out += piece
            if then:
                then(master, out.decode(errors="replace"))
    os.close(master)
    process.wait()
    return out.decode()


def screen(raw: str) -> list[str]:
    """Return what stays on the terminal: carriage return, cursor up and erase line are obeyed."""
    rows, at, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[[\d;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", raw):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            at += 1
            rows += [""] * (at == len(rows))
        elif piece == "\x1b[1A":
            at -= 1
        elif piece == "\x1b[2K":
            rows[at] = ""
        elif piece[0] != "\x1b":
            row = rows[at].ljust(column)
            rows[at] = row[:column] + piece + row[column + len(piece) :]
            column += len(piece)
    return rows


def broken(raw: str, plain: str) -> set[str]:
    """Return words of a terminal that are not those of the plain output."""
    shown = {word for line in screen(raw) for word in line.split()}
    return shown ^ set(plain.split())


@pytest.fixture(scope="module")
def plain() -> str:
    """Output of the fake run on a pipe."""
    return on_pipe(["-c", FAKE, "0.01"])


def test_a_pipe_gets_the_lines_as_they_are(plain: str) -> None:
    assert CONTROL.search(plain) is None
    lines = sorted(plain.splitlines())  # runs that end at once come in any order
    assert {
        "nf: a fake run",
        "PASS test_fake::one icarus seed 1 0.0 s",
        "FAIL test_fake::two icarus seed 1 0.0 s",
        "===== 5 runs =====",
    } <= set(lines)
    assert len(lines) == 10
    no_colour = on_pipe(["-c", FAKE, "0.01"], NO_COLOR="1", FORCE_COLOR="1")
    assert sorted(no_colour.splitlines()) == lines
    dumb = on_terminal(["-c", FAKE, "0.01"], TERM="dumb")
    assert sorted(dumb.splitlines()) == lines


def test_colours_can_be_forced_and_forbidden(plain: str) -> None:
    forced = on_pipe(["-c", FAKE, "0.01"], FORCE_COLOR="1")
    assert sorted(CONTROL.sub("", forced).splitlines()) == sorted(plain.splitlines())
    assert "\x1b[32mPASS\x1b[0m" in forced
    raw = on_terminal(["-c", FAKE, "0.01"], NO_COLOR="1")
    assert set(CONTROL.findall(raw)) == {"\x1b[1A", "\x1b[2K"}  # bars move; nothing has a colour
    words = ["-m", "scripts.cli.main", "list", "--suites"]
    table = on_terminal(words, NO_COLOR="1")
    assert CONTROL.search(table) is None
    assert broken(table, on_pipe(words)) == set()


def test_bars_are_gone_at_the_end(plain: str) -> None:
    raw = on_terminal(["-c", FAKE, "0.6"])
    assert "5 to go" in raw
    assert "builds" in raw
    assert re.search(r"about 0:0[1-3] left", " ".join(CONTROL.sub("", raw).split()))
    assert broken(raw, plain.replace("0.0 s", "0.6 s")) == set()
    assert "\x1b[?25l" not in raw  # nobody would show the cursor after a kill


def test_ctrl_c_leaves_a_clean_terminal() -> None:
    def press(master: int, text: str) -> None:
        if "4 to go" in text and "^C" not in text:
            os.write(master, b"\x03")

    rows = [row for row in screen(on_terminal(["-c", FAKE, "0.8"], press)) if row]
    assert rows[1] == "PASS test_fake::one icarus seed 1 0.8 s"
    assert [row for row in rows if "to go" in row or "runs " in row] == [rows[-1]]
    assert rows[-1] in ("===== 1 runs =====", "===== 2 runs =====")


def test_a_terminal_without_utf_8() -> None:
    raw = on_terminal(["-c", FAKE, "0.1"], LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert raw.isascii()
    assert "\\u" not in raw
    assert "===== 5 runs =====" in raw


def test_a_table_in_plain_lines() -> None:
    table = TextTable(
        "{:6} {:>6.1f} s  {}", [("a", 1, "x"), ("b", 22.25, "")], ("n", "took", "why")
    )
    assert table.lines() == ["n          took  why", "a         1.0 s  x", "b        22.2 s  "]
    assert TextTable("{}", [], ("n",)).lines() == []


def specs(*names: str) -> list[RunSpec]:
    """Return a run of each name."""
    build = BuildSpec("icarus", TOP, FILELIST)
    return [RunSpec(build, "test_x", (name,)) for name in names]


def record(spec: RunSpec, seconds: float) -> RunRecord:
    """Return the record of a run that passed."""
    return RunRecord.of(spec, Verdict(True), seconds=seconds)


def test_the_time_left_covers_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(schedule, "time", SimpleNamespace(monotonic=lambda: now[0]))
    some = specs("long", "b", "c")
    known = dict(zip([one.id for one in some], (90.0, 20.0, 10.0), strict=True))
    for jobs, left in ((1, 120), (2, 90), (8, 90)):  # the sum, or the longest
        assert RunProgress(some, jobs, print, known).left(100.0) == left
    progress = RunProgress(some, 1, lambda _: None, known)
    progress.run(lambda spec: record(spec, 0.0), end=lambda: None)
    progress = RunProgress(some, 2, lambda _: None, known)
    progress._begun = {some[0].id: 100.0, some[1].id: 100.0}
    assert progress.left(110.0) == 80  # the longest has run for 10 s
    progress.finished(record(some[1], 5.0))
    assert progress.left(110.0) == 80  # a run that was quick makes no other one quicker
    progress.finished(record(some[2], 20.0))
    assert progress.left(110.0) == pytest.approx(80)
    slow = RunProgress(some, 2, lambda _: None, known)
    slow.finished(record(some[1], 40.0))
    assert slow.left(100.0) == 180  # twice as slow as recorded
    assert slow.time_left(100.0) == "about 3:00 left"
    slow._begun = {some[0].id: 0.0, some[2].id: 0.0}
    assert slow.time_left(500.0) == "longer than recorded"


def test_the_time_left_says_what_it_does_not_know() -> None:
    some = specs("a", "b", "c")
    progress = RunProgress(some, 1, lambda _: None)
    assert progress.time_left(0.0) == "time left unknown: no duration is recorded"
    progress.finished(record(some[0], 4.0))
    assert progress.time_left(0.0) == "about 0:08 left (2 never recorded)"
    one = RunProgress(some, 1, lambda _: None, {some[0].id: 60.0})
    assert one.time_left(0.0) == "about 3:00 left (2 never recorded)"


def test_the_time_left_covers_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    some = specs("a", "b")
    build = some[0].build
    known = {one.id: 10.0 for one in some}
    assert RunProgress(some, 2, print, known, {build: 60.0}).left(0.0) == 70
    monkeypatch.setattr(build_cache, "under_way", lambda: [(build, 0.0)])
    for now, left in ((0.0, 70), (45.0, 25), (80.0, 10)):
        assert RunProgress(some, 2, print, known, {build: 60.0}).left(now) == left


def test_a_bulk_replay_says_speed_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(replay_run, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with replay_run.line_progress(1000, 200) as add:
        add(100)
        assert capsys.readouterr().err == ""
        now[0] = 140.0
        add(300)
    bar = "[##############          ]"
    assert capsys.readouterr().err == f"{bar}  60% 600 of 1,000 lines, 10 lines/s, 0:40 left\n"
    assert clock(3725) == "1:02:05"
