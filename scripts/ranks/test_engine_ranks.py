# SPDX-License-Identifier: Apache-2.0
"""Tests of the ranks of `nf train check gpu` on CPU tensors, where both engines can be compared."""

from __future__ import annotations

import argparse
import re

import pytest

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from scripts.cli import train_check_gpu
from scripts.common.errors import NfError
from scripts.ranks.engine_ranks import SETUPS


def lines_of(parts: str, fault: bool = False) -> dict[str, str]:
    """Run parts of the check on two ranks; return the difference by name, "" for none."""
    return dict(train_check_gpu._ran(2, train_check_gpu.CPU, parts, fault)["lines"])


@pytest.mark.nightly('a minute; the law "torch: the weights are those of the engine c" is quick')
def test_every_setup_trains_alike_with_both_engines() -> None:
    """Check weights bit by bit, in all set-ups, and that votes or codes are sent."""
    assert lines_of("setups") == {f"set-up: {name}": "" for name in SETUPS}


@pytest.mark.nightly('10 s; the law "torch: the weights are those of the engine c" is quick')
def test_buckets_and_captures() -> None:
    found = lines_of("buckets,capture")
    assert len(found) == 8
    assert not any(found.values()), found


@pytest.mark.nightly("15 s: three jobs; test_codec_law compares both engines in every change")
def test_a_wrong_bit_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check the verdicts and the exit code with one wrong bit in lines of G_BINARY."""
    jobs = [("one rank", 1, "codec,speed"), ("2 ranks", 2, "buckets")]
    monkeypatch.setattr(train_check_gpu, "_jobs", lambda device: jobs)
    args = argparse.Namespace(device=train_check_gpu.CPU, fault=True)
    assert train_check_gpu.run(args) == 1
    said = capsys.readouterr().out
    assert "FAIL one rank: bits of G_BINARY: differ for 1 normal elements" in said
    assert re.search(r"FAIL 2 ranks: bucket, G_BINARY vote: 1 of \d+ elements of \w\.", said)
    assert "ok   one rank: bits of G_TERNARY\n" in said
    assert re.search(r"ok   1 bit: \d+\.\d GB/s, \d\.\d\d of a copy\n", said)
    assert "4 wrong" in said


def test_a_slow_device_fails() -> None:
    speeds = [("copy", 1.0, 10), ("1 bit", 2.0, 10), ("2 bits", 9.0, 10)]
    assert [good for _, good in train_check_gpu._rates(speeds, "cuda")] == [True, False, True]
    assert all(good for _, good in train_check_gpu._rates(speeds, "cpu"))


def test_no_gpu_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(NfError, match="no GPU that torch can use is here; --device cpu"):
        train_check_gpu.run(argparse.Namespace(device="cuda", fault=False))
