# SPDX-License-Identifier: Apache-2.0
"""Tests of bulk replay on the device model: tensors, shards, kills, journals, and faults."""

import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.modes import Tie
from neuron_fabric.capture import write_capture
from scripts.common.records import Edit
from verif.conftest import BulkModel
from verif.coverage.cover_model import FUNCTIONAL
from verif.coverage.device_coverage import NfCoverage
from verif.replay.conftest import MIX, Command, check_files, inverted, step_files
from verif.replay.stimulus_file import CommitOperation, Read, Stimulus, Write

Bulk = Command[BulkModel]


@pytest.fixture
def mixed(bulk: Bulk) -> Bulk:
    """Return the command in bulk with a route of each kind, and with --out."""
    return bulk.of(bulk.capture, "--route", *MIX, "--out", bulk.out)


@pytest.fixture
def whole(bulk: Bulk) -> list[bytes]:
    """Return the contents of the result files of an uninterrupted replay."""
    out = bulk.folder / "whole.safetensors"
    bulk.passes("--route", *MIX, "--out", out)
    return bulk.files(out)


@pytest.fixture
def bare(bulk: Bulk) -> Bulk:
    """Return the command `nf replay` without capture and words."""
    return replace(bulk, capture=None, words=())


def test_the_tensors_are_those_of_the_reference(mixed: Bulk, capture: Path) -> None:
    words = ("--sim", "both", "--tie", "minus", "--threshold", 2, "--ternary-ratio", 0.3)
    last = mixed.passes(*words).last
    for found in check_files(mixed.out, capture, tie=Tie.MINUS, threshold=2, ratio=0.3):
        assert found["simulator"] == "verilator,icarus"
        assert json.loads(found["routes"])["c.weight"] == "G_TERNARY"
    assert sorted(mixed.folder.glob("out*")) == step_files(mixed.out)
    assert "0 mismatches" in last
    assert "cycles at memory latency 100, " in last
    metrics = json.loads(next(mixed.device.files.rglob("metrics.json")).read_text(encoding="utf-8"))
    covered = metrics[FUNCTIONAL]
    assert covered["access"]["read plane 2 G_TERNARY"] == 4
    assert covered["opcode"]["RwD MEM_WR"] == 2 * 7 * 5
    planned = NfCoverage().model.points
    assert all(set(bins) <= set(planned[name].bins) for name, bins in covered.items())


@pytest.mark.parametrize("transport", ["signal", "bulk"])
def test_warnings(transport: str, request: pytest.FixtureRequest) -> None:
    """Check the warnings for a capture without a known head, and for a tensor of zeros of one
    worker.
    """
    command = request.getfixturevalue(transport)
    values = {"body.weight": np.ones((2, 2, 2)), "norm.weight": np.ones((2, 2))}
    values["body.weight"][1] = 0
    write_capture(command.folder / "c", "m", {3: values})
    head, zero = command.of(command.folder / "c").passes().err.splitlines()
    assert head.startswith("nf replay: warning: the capture does not name its head")
    assert "tensor 'body.weight' is zero everywhere in step 3 of worker 1" in zero


@pytest.mark.parametrize("cut", [0, 500])
def test_a_killed_replay_can_be_resumed(mixed: Bulk, whole: list[bytes], cut: int) -> None:
    """Check that --resume after a fault gives the same files, and drives only what is missing.

    ``cut`` bytes at the end of the last record did not reach the disk.
    """
    device = mixed.device
    epochs, device.epochs, device.dies_at = device.epochs, 0, 3
    mixed.fails()
    journal = mixed.folder / "out.safetensors.verilator.journal"
    data = journal.read_bytes()
    journal.write_bytes(data[: len(data) - cut])
    device.epochs, device.dies_at = 0, None
    mixed.passes("--resume")
    assert device.epochs < epochs
    assert mixed.files() == whole
    assert not journal.exists()


def test_a_journal_that_does_not_fit_is_refused(mixed: Bulk, capture: Path) -> None:
    assert "there is no journal; replay that part first" in mixed.refuses("--resume")
    mixed.device.dies_at = 3
    mixed.fails()
    journal = mixed.folder / "out.safetensors.verilator.journal"
    data = bytearray(journal.read_bytes())
    for words, text in (
        (("--seed", 2), "it is of another replay (seed 1, now 2)"),
        (("--tie", "minus"), "it is of another replay (tie 'PLUS', now 'MINUS')"),
        (("--steps", 3), "it is of another replay (steps [3, 60], now [3])"),
    ):
        assert text in mixed.refuses("--resume", *words)
    mixed.device.edits = (Edit("hdl/engine/nf_vote.sv", "endmodule", "// another\nendmodule"),)
    for again in (("--resume",), ("--merge", 1)):
        error = mixed.refuses(*again)
        assert re.search(r"it is of another replay \(RTL '(\w{16})', now '(?!\1)\w{16}'\)", error)
    mixed.device.edits = ()
    gradient = min(capture.rglob("*.safetensors"))
    original = gradient.read_bytes()
    gradient.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
    assert "it is of another replay (content" in mixed.refuses("--resume")
    gradient.write_bytes(original)
    data[len(data) // 2] ^= 1
    for content, text in (
        (bytes(data), "is damaged, or of another replay; delete it"),
        (b"something else", "no journal of a replay"),
    ):
        journal.write_bytes(content)
        assert text in mixed.refuses("--resume")


# -- negative twins ---------------------------------------------------------------------------
def test_a_wrong_lane_is_named_with_its_worker(bulk: Bulk) -> None:
    """Check that a bit which is inverted in all contributions of worker 3 is reported with the
    worker.

    The stimulus ends with the read after the first of its contributions.
    """
    bulk.device.damage = inverted(3, 5)
    shown = bulk.fails("--steps", 3, "--route", "*=G_BINARY", "--out", bulk.out)
    assert "step 3 tensor a.weight G_BINARY line 0 element 5 " in shown.err
    assert "; worker 3, line 0 of region 0, element 5: after its contribution" in shown.err
    stimulus = bulk.stimulus(shown.out)
    assert stimulus.note.startswith("worker 3")
    assert isinstance(stimulus.operations[0], CommitOperation)
    assert isinstance(stimulus.operations[-1], Read)
    writes = [one for one in stimulus.operations if isinstance(one, Write)]
    assert writes[-1].ldid == 3


def test_a_loss_that_needs_the_whole_round(bulk: Bulk) -> None:
    """Check the report of a contribution that is lost only as the seventh since the reset.

    The line alone does not show it, so the stimulus is the whole epoch.
    """

    bulk.device.damage = lambda count, one: replace(one, data=bytes(64)) if count == 6 else one
    shown = bulk.fails("--steps", 3, "--route", "*=FP32")
    assert "tensor a.weight FP32 line 1 " in shown.err
    operations = bulk.stimulus(shown.out).operations
    writes = [one for one in operations if isinstance(one, Write)]
    assert len(writes) == 10
    assert f"worker {writes[6].ldid}: its contribution is missing" in shown.err


def test_registers_and_faults_are_red(bulk: Bulk) -> None:
    words = ("--steps", 3, "--route", "*=G_BINARY")
    bulk.device.dies_at = 1
    shown = bulk.fails(*words)
    assert "verilator: step 3 round 1: cycle 7: the simulator is gone" in shown.err
    operations = bulk.stimulus(shown.out).operations
    assert [type(one) for one in operations].count(Write) == 10
    bulk.device.dies_at, bulk.device.twice = None, True
    assert "step 3 round 0: counter DUPLICATE went up by 10" in bulk.fails(*words).err


DRAWN, BULK_DRAWN = "--synthetic resnet18", "--synthetic resnet18 --transport bulk"
WORDS = {
    "nothing": ("", "nothing to replay; name one of CAPTURE"),
    "two": (f"{DRAWN} --stimulus x", "2 given"),
    "signal": (DRAWN, "--synthetic: requires the bulk"),
    "waves": (f"{BULK_DRAWN} --waves", "bulk replay writes no waves"),
    "kept": (f"{BULK_DRAWN} --resume", "--resume: requires --out"),
    "merge": (f"{BULK_DRAWN} --merge 2 --resume --out x", "--merge: only joins journals"),
    "cluster": (f"{BULK_DRAWN} --cluster=", "the address is empty"),
    "timeout": (f"{BULK_DRAWN} --timeout 9", "bulk replay has no time-out"),
    "workers": ("captures/x --workers 4", "a fixed number of workers"),
    "usual workers": ("captures/x --workers 8", "a fixed number of workers"),
    "out": ("--stimulus x --out y", "--out: a stimulus contains"),
    "parts": (
        "captures/digits-resnet-8x --transport bulk --merge 2 --out no-such.safetensors",
        "there is no journal; replay that part first",
    ),
    "steps": (f"{BULK_DRAWN} --steps 0-999999", "more than 10,000 steps"),
    "digits": ("captures/x --param SLOTS=" + "9" * 5000, "write NAME=NUMBER with one of"),
    "forged": ("'captures/x\nnf replay: 0 mismatches\x1b[2J'", "x\\nnf replay: 0 mismatches\\x1b"),
    "stimulus": ("--stimulus 'no such file'", "no such file: No such file"),
}


@pytest.mark.parametrize(("words", "text"), WORDS.values(), ids=WORDS.keys())
def test_options_that_exclude_each_other(bare: Bulk, words: str, text: str) -> None:
    assert text in bare.refuses(*shlex.split(words))


def test_special_files_are_refused_at_once(bare: Bulk) -> None:
    """Check that a FIFO or a device is refused as stimulus without opening it, which could wait
    forever.
    """
    os.mkfifo(bare.folder / "fifo")
    for path, kind in ((bare.folder / "fifo", "a FIFO"), (Path("/dev/zero"), "a device")):
        assert f"is {kind}, not a file" in bare.refuses("--stimulus", path)


LINE = "00" * 64
READ = {"read": "0x40", "ldid": 0, "expect": LINE}
STIMULI: dict[str, tuple[dict[str, object], str]] = {
    "empty": ({"operations": []}, "it reads nothing"),
    "write": ({"operations": [{"write": "0x0", "ldid": 0, "data": LINE}]}, "it reads nothing"),
    "odd": ({"operations": [READ | {"read": "0x3"}]}, "'0x3' is no address of a line"),
    "digits": ({"operations": [READ | {"read": "0x" + "4" * 5000}]}, "is no address of a line"),
    "number": ({"operations": [READ | {"read": 64}]}, "operations[0]: read: 64 is not a text"),
    "short": ({"operations": [READ | {"expect": "00"}]}, "is no line of 64 bytes"),
    "list": ({"operations": [[READ]]}, "operations[0]: a list is not an object"),
    "mode": ({"operations": [{"commit": 0, "epoch": 1, "config": {"mode": []}}]}, "config.mode"),
    "config": ({"operations": [{"commit": 0, "epoch": 1, "config": {"mode": "FP32"}}]}, "'base'"),
    "later": ({"version": 2}, "version 2, not 1"),
    "seed": ({"operations": [READ], "seed": "1"}, "seed: '1' is not an integer"),
    "note": ({"operations": [READ], "note": None}, "note: None is not a text"),
    "parameters": ({"operations": [READ], "parameters": []}, "parameters: a list is not"),
    "far": ({"operations": [READ | {"read": hex(1 << 52)}]}, "is no address of a line"),
    "ldid": ({"operations": [READ | {"ldid": 16}]}, "operations[0]: 16 is not from 0 to 15"),
    "parameter": ({"operations": [READ], "parameters": {"X": 1}}, "parameter 'X=1'"),
}


@pytest.mark.parametrize(("change", "text"), STIMULI.values(), ids=STIMULI.keys())
def test_a_stimulus_that_cannot_be_driven(bare: Bulk, change: dict[str, object], text: str) -> None:
    path = bare.folder / "x.json"
    Stimulus("wrong", {}, 1, (Read(0x40, 0, bytes(64)),)).write(path)
    assert Stimulus.read(path).operations  # the twin: only the change is wrong
    content = json.loads(path.read_text(encoding="utf-8")) | change
    path.write_text(json.dumps(content), encoding="utf-8")
    assert text in bare.refuses("--stimulus", path)
