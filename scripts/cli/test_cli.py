# SPDX-License-Identifier: Apache-2.0
"""Tests of the command line: bad input gives one clear line and exit code 2, never a traceback."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from neuron_fabric.arguments import intermixed
from scripts.cli.conftest import Nf
from scripts.cli.main import VERBS, load, main, make_parser, verb_of
from scripts.common import cpu_time, process
from scripts.common.errors import NfError
from scripts.common.records import RunSpec
from scripts.conftest import Toy, ended
from scripts.farm import cluster
from scripts.plan import selection
from scripts.report import write_report
from scripts.run import schedule

SERVE = "serve --workers 2 --socket s --device model"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "required: VERB"),
        ("bogus", "unknown verb 'bogus'"),
        ("run", "name tests or a suite"),
        ("run no_such_test*", "no test matches"),
        ("run x --suite smoke", "no test matches"),
        ("run --suite no_such_suite", "unknown suite"),
        ("run x --seed 0", "nor 'repeat'"),
        ("run x --seeds many", "'many' is not a number"),
        ("run x --sim questa", "invalid choice"),
        ("run x --timeout -1", "'-1' is not a number above 0"),
        ("run x --seed 99999999999999999999", "is not a number"),
        ("run test_regs::unmapped --cluster nowhere", "write tcp://HOST:PORT"),
        ("run test_regs::unmapped --cluster ''", "write tcp://HOST:PORT"),
        ("run test_regs::unmapped --cluster tls://127.0.0.1:9", "--cluster tls://"),
        ("history --last 99999999999999999999", "is not a number"),
        ("history --trend --result failed", "--trend shows every passed run"),
        ("rerun 99999999999999999999", "history"),
        ("list --suites --builds", "not allowed with argument"),
        ("mutate no_such_mutant", "no mutant matches"),
        ("mutate --list --prove", "--prove: of a list outside the tree"),
        ("mutate cpp-four-tags --sim icarus", "cpp-four-tags is of the package"),
        ("mutate --part package --sim icarus", "is of the package, which runs on no simulator"),
        (
            "mutate --list --without checker:scoreboard",
            "--without: of mutants made from the source",
        ),
        ("mutate --list link* --no-probe", "--no-probe: of mutants made from the source"),
        ("mutate --list link* --sample 1", "link*: of the listed mutants"),
        ("mutate --list --sim verilator --all", "--sim: of the listed mutants"),
        ("mutate --part checkers", "--part checkers: how many is missing"),
        ("mutate --part checkers --all --sim icarus", "--part checkers: --sim is no option"),
        ("mutate --part checkers nf_* --all", "--part checkers: --globs is no option"),
        ("test --only nothing", "no part 'nothing'"),
        ("close --plain -1", "is not a number above 0"),
        ("close --plain nan", "is not a number above 0"),
        ("close --plain inf", "is not a number above 0"),
        ("close --plain many", "is not a number above 0"),
        ("capture none.py", "no script none.py; give a path, or one of the examples: train, "),
        ("capture check", "nf capture check DIR"),
        ("capture check none", "no such folder"),
        ("capture --workers 65 train", "'65' is not a number from 1 to 64"),
        ("capture --steps 9-1 train", "steps '9-1': no such range"),
        ("capture --ranks 4 train", "rank 4: there are 4 ranks"),
        ("train monitor nowhere", "nf: nowhere: there is no such log; give the folder"),
        ("train monitor replay", "no run is given"),
        ("measure capacity table --substrate /", "cannot be read (is a folder"),
        ("serve --socket s", "give --workers N and --socket PATH, or --status PATH"),
        ("serve --workers 2 --socket s --param PIGEONS=1", "'PIGEONS=1': not understood"),
        ("serve --status none/s", "no reducer server is there"),
        (f"{SERVE} --capacity 1/64", "the models count no misses"),
        (f"{SERVE} --apart", "the models know no order"),
        (f"{SERVE} --capacity 64/64", "64 misses of 64 contributions: there are 1 to 256"),
        (f"{SERVE} --capacity 1/257", "contributions"),
        (f"{SERVE} --capacity x", "'x' is not MISSES/WINDOW"),
        (f"{SERVE} --capacity 1/", "'1/' is not MISSES/WINDOW, as 16/64"),
    ],
)
def test_bad_input_is_one_line(line: str, says: str, nf: Nf) -> None:
    (error,) = nf(*shlex.split(line), code=2).splitlines()
    assert says in error


@pytest.mark.parametrize("factor", ["-1", "0", "nan", "inf", "x"])
def test_a_factor_that_is_none_is_one_line(
    factor: str, monkeypatch: pytest.MonkeyPatch, nf: Nf
) -> None:
    """Check that NF_SCALE must be a number above 0.

    With -1 every sequence had one transaction, and passed.
    """
    monkeypatch.setenv("NF_SCALE", factor)
    assert nf("run", "test_regs::unmapped", "--dry-run", code=2) == (
        f"nf: NF_SCALE: {factor!r} is not a number above 0: unset it, or give a factor.\n"
    )


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["rnu"], "run"),
        (["train", "chek"], "check"),
        (["run", "--suite", "smoek"], "smoke"),
        (["run", "test_modes::fp23"], "test_modes::fp32"),
        (["cov", "mrge"], "merge"),
        (["run", "--sim", "icaru"], "icarus"),
    ],
)
def test_a_misspelt_name_gets_the_closest(words: list[str], meant: str, nf: Nf) -> None:
    assert f"did you mean {meant!r}?" in nf(*words, code=2)


def test_the_overview_lists_every_verb_once(nf: Nf) -> None:
    listed = re.findall(r"^  ([a-z]+(?: [a-z]+)?)  +\S", nf("--help"), re.MULTILINE)
    assert listed[: len(VERBS)] == list(VERBS)


def test_a_cluster_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    with pytest.raises(NfError, match=r"Dask is not installed: `make cluster`\.$") as caught:
        cluster.connect("tcp://127.0.0.1:9").__enter__()
    assert len(str(caught.value).splitlines()) == 1


def test_doctor(nf: Nf) -> None:
    out = nf("doctor")
    for name in ("python", "libpython", "verilator", "icarus", "cocotb", "ruff"):
        assert name in out


def test_an_interrupt_while_runs_are_handed_out(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check Ctrl-C while `run_all` submits runs: started ones are ended, the others never begin."""
    submit, ended = ThreadPoolExecutor.submit, threading.Event()
    spec = RunSpec(toy.spec(), "toy_bench", ("adds_one",))

    def interrupted(*words: Any) -> Any:
        if len(handed) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        handed.append(words)
        return submit(*words)

    def runs(_spec: RunSpec) -> Any:
        assert ended.wait(60)
        raise process.Interrupted

    handed: list[Any] = []
    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    assert schedule.run_all([spec] * 4, 1, lambda _record: None, runs, end=ended.set) == []
    assert ended.is_set()


def test_time_out_ends_the_whole_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = tmp_path / "pid"
    child = f"sleep 600 & echo $! > {number}"
    for seconds in (1.0, 10.0, 100.0):  # until the shell has come so far
        monkeypatch.setattr(cpu_time, "STANDS_STILL_S", seconds)
        done = process.run_logged(
            ["sh", "-c", f"{child}; sleep 600"], tmp_path / "log", cwd=tmp_path, timeout_s=seconds
        )
        assert done.timed_out
        if number.is_file() and number.read_text(encoding="utf-8").endswith("\n"):
            break
    assert ended(int(number.read_text(encoding="utf-8")))


def _options(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.Action]]:
    """Yield (words before it, action) of every option and argument of a parser and below."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, sub in action.choices.items():
                yield from _options(sub, f"{name} {word}")
        else:
            yield name, action


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_has_a_text(verb: str) -> None:
    """Check that every option has a help text, and a metavar without "%".

    `%%` is an escape only in help texts.
    """
    parser = make_parser(verb)
    for word in verb.split():
        below = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        parser = below.choices[word]
    for name, action in _options(parser, verb):
        where = f"nf {name} {'/'.join(action.option_strings) or action.dest}"
        assert action.help, f"{where} has no help"
        assert "%" not in str(action.metavar), f"{where}: {action.metavar}"


@pytest.mark.parametrize("verb", list(VERBS))
def test_examples_of_the_help_can_be_typed(verb: str) -> None:
    """Check that the parser of `nf` accepts each example of a help."""
    examples = load(verb).examples.partition("examples:\n")[2].splitlines()
    for line in examples:
        words = shlex.split(re.split(r"  +", line.strip())[0].partition(" | ")[0])
        if words[:1] == ["nf"]:
            parser = make_parser(verb_of(words[1:]))
            intermixed(parser)
            parser.parse_args(words[1:])
    assert any("nf " in line for line in examples) or verb in {"clean", "completion", "doctor"}


def test_options_after_two_hyphens_are_of_the_script() -> None:
    """Check that `-- SCRIPT --option` leaves the options of the script to it."""
    words = shlex.split("train calibrate --out p.toml --workers 4 -- train.py --lr 0.1 -- -v")
    parser = make_parser(verb_of(words))
    intermixed(parser)
    args = parser.parse_args(words)
    assert args.script == ["train.py", "--lr", "0.1", "--", "-v"]
    assert args.workers == 4


def test_nothing_to_do_replaces_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a run without runs leaves an empty report, not that of the command before."""

    def nothing(_args: argparse.Namespace) -> list[RunSpec]:
        raise selection.NothingToDo("no file changed.")

    monkeypatch.setattr(selection, "plan_runs", nothing)
    monkeypatch.setattr(write_report, "write_all", partial(write_report.write_all, folder=tmp_path))
    assert main(["run", "test_modes*", "--changed", "--dry-run"]) == 0
    assert not any(tmp_path.iterdir())
    assert main(["run", "test_modes*", "--changed"]) == 0
    assert 'tests="0" failures="0"' in (tmp_path / "junit.xml").read_text(encoding="utf-8")
