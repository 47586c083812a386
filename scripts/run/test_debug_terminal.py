# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf run --pdb` on a pseudo-terminal, in a copy of the tree with a changed sequence."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from scripts.build import registry
from scripts.checks.tutorials import copy_tree
from scripts.cli.main import main

LIMIT_S = 300.0
BODY = "        config = self.layout.region(self.mode, self.lines_log2, self.workers, **options)"
SEQUENCE = "verif/sequences/aggregate.py"
pytestmark = pytest.mark.skipif(
    not registry.get("icarus").available(), reason="Icarus is not installed"
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout whose name contains a space."""
    place = tmp_path_factory.mktemp("debug") / "a tree"
    copy_tree(place)
    return place


@pytest.fixture
def planted(tree: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Put the line `request.param` at the start of a sequence; return the checkout."""
    path = tree / SEQUENCE
    before = path.read_text(encoding="utf-8")
    path.write_text(before.replace(BODY, f"        {request.param}\n{BODY}", 1), encoding="utf-8")
    yield tree
    path.write_text(before, encoding="utf-8")


def typed(tree: Path, keys: Sequence[bytes]) -> tuple[str, int]:
    """Run a test with --pdb on a terminal, type each of ``keys`` at a prompt of pdb.

    Returns:
        The output and the exit code.
    """
    ours, theirs = pty.openpty()
    words = [".venv/bin/nf", "run", "test_modes::g_binary", "--sim", "icarus", "--pdb"]
    env = {**os.environ, "TERM": "dumb", "COLUMNS": "300"}
    process = subprocess.Popen(
        words, cwd=tree, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    text, left, end = "", list(keys), time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # the command has ended
            break
        text += piece.decode(errors="replace")
        if left and text.count("(Pdb) ") > len(keys) - len(left):
            os.write(ours, left.pop(0))
    process.kill()
    return text.replace("\r\n", "\n"), process.wait()


@pytest.mark.parametrize("planted", ["breakpoint()"], indirect=True)
def test_a_breakpoint_in_a_sequence_stops(planted: Path) -> None:
    text, code = typed(planted, [b"p self.mode\n", b"q\n"])
    line = (planted / SEQUENCE).read_text(encoding="utf-8").splitlines().index(BODY) + 1
    assert f"{SEQUENCE}({line})body()" in text
    assert "(Pdb) p self.mode\n<Mode.G_BINARY: 1>\n" in text
    assert re.search(rf"crash: a debugger ended the test; .*\({SEQUENCE}:{line}\)", text), text
    assert text.count("(Pdb) ") == 2  # quit ends the run, with no second prompt
    assert code == 1


@pytest.mark.parametrize("planted", ["assert self.workers < 1, 'planted'"], indirect=True)
def test_a_failure_opens_pdb_where_it_is_raised(planted: Path) -> None:
    text, code = typed(planted, [b"p self.workers\n", b"c\n", b"c\n", b"c\n"])
    assert "AssertionError: planted" in text
    assert "-> assert self.workers < 1, 'planted'\n(Pdb) p self.workers\n4\n" in text
    assert text.count("(Pdb) ") == 4  # one prompt for each of the three tests
    assert "mismatch: AssertionError: planted" in text
    assert code == 1


@pytest.mark.nightly("a third run; the two above are the quick part")
@pytest.mark.parametrize("planted", ["pass"], indirect=True)
def test_without_a_stop_the_run_is_an_ordinary_one(planted: Path) -> None:
    text, code = typed(planted, [])
    assert "(Pdb)" not in text
    assert re.search(r"PASS test_modes::g_binary \(3 tests\) icarus seed 1", text)
    assert code == 0


@pytest.mark.parametrize("option", ["--watch", "--until-fail", "--jobs=2"])
def test_what_pdb_excludes(option: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "test_modes::g_binary", "--pdb", option]) == 2
    assert f"--pdb excludes {option.partition('=')[0]}; leave one out." in capfd.readouterr().err


def test_pdb_needs_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "test_modes::g_binary", "--pdb"]) == 2
    assert "--pdb needs a terminal" in capfd.readouterr().err
