# SPDX-License-Identifier: Apache-2.0
"""Tests of the command `python -m neuron_fabric profile`."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from neuron_fabric import __main__
from neuron_fabric.codec import Route
from neuron_fabric.profile import PhaseRoute, parse_profile, read_profile, sketch, write_profile
from neuron_fabric.profile.draft_profile import draft
from neuron_fabric.profile.found_model import model_of_name
from neuron_fabric.profile.profile_types import FULL
from neuron_fabric.profile.samples import Samples, Way, samples_path, write_samples
from neuron_fabric.profile.test_profile_file import EXAMPLE

Capture = pytest.CaptureFixture[str]


def nf(*words: object) -> int:
    """Run `python -m neuron_fabric profile WORDS` and return its exit code."""
    try:
        return __main__.main(["profile", *map(str, words)])
    except SystemExit as end:
        return int(end.code or 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write the example profile and, next to it, `drop.toml` with an unknown threshold.

    Returns the path of the example.
    """
    place = tmp_path / "p.toml"
    place.write_text(EXAMPLE, encoding="utf-8")
    head = EXAMPLE.partition("[[region]]")[0]
    (tmp_path / "drop.toml").write_text(f"{head}[monitor]\ndrpo = 0.3\n", encoding="utf-8")
    return place


def test_show(path: Path, capsys: Capture) -> None:
    assert nf("show", path) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "pairs100-resnet: verified, 53,224 elements"
    assert "valid for: world_size 4 to 16, amp off" in out
    assert "warm-up in FP32: 10% of steps" in out
    row = next(line.split() for line in out if line.startswith("conv.2"))
    assert row == [
        *("conv.2", "conv", "32,256", "G_BINARY", "vote", "x", "0.4210", "G_TERNARY", "net"),
        *("0.468", "to", "0.604"),
    ]
    assert out[-1] == "sent by a worker in the steady phase: 25.5% of FP32"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("show", "none.toml"), "none.toml: cannot be read (No such file or directory)"),
        # Thresholds are checked here, before a training attaches the profile.
        (("show", "drop.toml"), "drop.toml: monitor: field 'drpo' is not known here; mend [moni"),
        (("check", "drop.toml"), "drop.toml: monitor: field 'drpo' is not known here; mend [moni"),
        (("show",), "the following arguments are required: PROFILE"),
        (("explain", "p.toml"), "invalid choice: 'explain'"),
        (("rule", "p.toml", "--floor", "G_UNARY=1"), "'G_UNARY=1' is not G_BINARY, G_TERNARY or"),
        (("rule", "p.toml", "--floor", "other=x"), "'other=x': a cosine from 0 to 1 is wanted"),
        (("rule", "p.toml", "--floor", "other=nan"), "'other=nan': a cosine from 0 to 1"),
        (("rule", "p.toml", "--assign", "FP32=1"), "'FP32=1' is not ROUTE=X, with one of G_BINARY"),
        (("rule", "p.toml", "--assign", "G_INT4=0"), "budget 0.0 is not above 0"),
        (("check", "p.toml", "--", "none.py"), "none.py: there is no such script"),
    ],
)
def test_bad_words(
    words: tuple[str, ...],
    text: str,
    path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(path.parent)
    assert nf(*words) == 2
    said = capsys.readouterr()
    assert text in said.err
    assert len(said.err.splitlines()) == 1
    assert not said.out


def test_diff(path: Path, tmp_path: Path, capsys: Capture) -> None:
    assert nf("diff", path, path) == 0
    assert capsys.readouterr().out == "the same\n"
    profile = parse_profile(EXAMPLE, "p")
    head, conv = profile.regions
    phases = {"warmup": FULL, "steady": PhaseRoute(Route.G_TERNARY, "net", why="better")}
    new = dataclasses.replace(
        profile,
        verified=False,
        valid_for=dataclasses.replace(profile.valid_for, amp="bf16"),
        regions=(
            dataclasses.replace(conv, phases=phases, elements=9),
            dataclasses.replace(head, name="top"),
        ),
    )
    write_profile(new, tmp_path / "q.toml")
    assert nf("diff", path, tmp_path / "q.toml") == 1
    assert capsys.readouterr().out.splitlines() == [
        "verified: True -> False",
        "valid_for.amp: off -> bf16",
        "region conv.2, steady: G_BINARY vote x 0.4210 -> G_TERNARY net (better)",
        "region conv.2, recovery: G_TERNARY net -> none",
        "region conv.2, elements: 32256 -> 9",
        "region top: new, FP32",
        "region head: gone",
    ]


def test_rule(path: Path, tmp_path: Path, capsys: Capture) -> None:
    """Check `profile rule`: routes change with floors, shrink and protect, without a training."""
    sums = {
        Way("steady", "G_BINARY", "vote"): {
            "dot": np.array([[0.0, 48.0]]),
            "mean2": np.array([[1.0, 100.0]]),
            "decoded2": np.array([[1.0, 100.0]]),
            "zeros": np.zeros((1, 2)),
        }
    }
    names, sizes = ("head.weight", "block3.conv1.weight"), (9700, 32256)
    samples = Samples(8, names, sizes, {"steady": np.arange(1)}, sums)
    write_samples(samples, samples_path(path))
    out = tmp_path / "q.toml"
    assert nf("rule", path, "--floor", "G_BINARY=0.5", "--out", out) == 0
    said = capsys.readouterr().out
    assert "rule.floor.G_BINARY: 0.45 -> 0.5" in said
    assert "FP32 (G_BINARY vote: cosine 0.480 < 0.50)" in said
    assert not read_profile(out).verified
    assert read_profile(path).verified  # as it was
    assert nf("rule", out, "--floor", "G_BINARY=0.4", "--shrink", "one") == 0
    assert "FP32 -> G_BINARY vote (cosine 0.480 >= 0.40)" in capsys.readouterr().out
    assert nf("rule", path, "--protect", "head,conv") == 0
    said = capsys.readouterr().out
    assert "conv is protected; G_BINARY vote would pass: 0.480" in said
    assert nf("rule", path, "--protect", "none") == 0
    assert "rule.protect: head, embedding -> none" in capsys.readouterr().out
    assert nf("rule", path, "--protect", "none", "--assign", "G_BINARY=0.5", "--out", out) == 0
    said = capsys.readouterr().out
    assert "rule.assign: none -> Assign(reference=<Route.G_BINARY" in said
    assert nf("show", out) == 0
    said = capsys.readouterr().out
    assert "the error budget leaves no route" in said
    assert "assigned again every 50 steps, within 0.5 of the error of G_BINARY" in said
    assert nf("rule", path, "--assign", "G_INT4=0.5") == 2
    assert "assign.reference G_INT4 is not one of routes; change" in capsys.readouterr().err
    samples_path(path).unlink()
    assert nf("rule", path) == 2
    assert "p.calibration.safetensors: cannot be read (No such file" in capsys.readouterr().err


SCRIPT = """
import argparse
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def main(rank, hidden):
    dist.init_process_group("gloo", rank=rank, world_size=4)
    assert dist.get_world_size() == 4
    try:
        DistributedDataParallel(torch.nn.Sequential(
            torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10)))
    except Exception:
        raise SystemExit("never")
    raise SystemExit("trained")

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=64)
    torch.multiprocessing.spawn(main, (parser.parse_args().hidden,), nprocs=4)
"""


def test_check_of_a_script(tmp_path: Path, capsys: Capture) -> None:
    """Check `profile check` with a script, which runs alone until it wraps its model."""
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    place, script = tmp_path / "p.toml", tmp_path / "train.py"
    profile = draft("net", sketch(net, ["2.weight", "2.bias"]))
    write_profile(dataclasses.replace(profile, verified=True), place)
    script.write_text(SCRIPT, encoding="utf-8")
    before = list(sys.argv)
    assert nf("check", place, "--", script) == 0
    assert "fits, 4 parameters in 3 regions" in capsys.readouterr().out
    assert nf("check", place, "--", script, "--hidden", "128") == 1
    assert "unverified: region 'linear.0' has 8,192 elements" in capsys.readouterr().out
    assert nf("check", "--strict", place, "--", script, "--hidden", "128") == 2
    assert "calibrate for this training" in capsys.readouterr().err
    assert nf("check", place, "--", script, "--hidden", "1024") == 2
    assert "more than 4 times apart" in capsys.readouterr().err
    assert sys.argv == before
    assert not torch.distributed.is_initialized()


def test_check_of_what_has_no_model(path: Path, tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    for text, code in (
        ("has wrapped no model in DistributedDataParallel", "pass"),
        ("has ended with code 3 before it wrapped a model", "raise SystemExit(3)"),
        ("has failed (ZeroDivisionError: division by zero)", "1 / 0"),
    ):
        script.write_text(code, encoding="utf-8")
        assert nf("check", path, "--", script) == 2
        assert text in capsys.readouterr().err
    assert nf("check", path) == 0
    assert "2 regions; no model to compare with" in capsys.readouterr().out
    assert nf("check", "--model", "none:make", path) == 2
    assert "none:make: gives no model (ModuleNotFoundError" in capsys.readouterr().err
    assert nf("check", "--model", "os:getcwd", path) == 2
    assert "os:getcwd: gives no model (TypeError: str is no torch" in capsys.readouterr().err
    assert nf("check", "--model", "a:b", path, "--", script) == 2
    assert "a script and --model are given" in capsys.readouterr().err


def test_check_of_a_function(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check `profile check` with a function that makes a model of 10^10 elements (meta device)."""
    pytest.importorskip("torch")
    source = """
        import torch
        def make():
            return torch.nn.Sequential(torch.nn.Linear(100_000, 100_000))
        """
    (tmp_path / "huge_net.py").write_text(textwrap.dedent(source), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    write_profile(draft("huge", sketch(model_of_name("huge_net:make"))), "huge.toml")
    assert nf("check", "--model", "huge_net:make", "huge.toml") == 1
    assert "unverified: it was never verified" in capsys.readouterr().out


def test_draft(tmp_path: Path, capsys: Capture) -> None:
    """Check `profile draft` of a script: routes of kinds, of patterns of regions, and the last."""
    pytest.importorskip("torch")
    place, script = tmp_path / "p.toml", tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    words = ("--route", "linear=G_INT8", "--route", "lin*.0=G_BINARY", "--out", place)
    assert nf("draft", *words, script, "--", "--hidden", "128") == 0
    assert f"written: {place}" in capsys.readouterr().out
    made = read_profile(place)
    routes = {one.name: one.phases["steady"].route for one in made.regions}
    assert routes["linear.0"] == Route.G_BINARY
    assert routes["bias"] == Route.FP32
    assert not made.verified
    assert nf("check", place, "--", script, "--hidden", "128") == 1, "unverified"
    place.unlink()
    assert nf("draft", "--route", "conv=G_INT4", "--out", place, script) == 2
    assert "no kind or region is 'conv'; name of linear" in capsys.readouterr().err
    assert nf("draft", "--route", "linear=INT8", "--out", place, script) == 2
    assert "'linear=INT8' is not KIND or REGION = one of FP32" in capsys.readouterr().err
    assert nf("draft", "--out", place, "none:make") == 2
    assert "none:make: gives no model (ModuleNotFoundError" in capsys.readouterr().err
    assert not place.exists()
