# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf train scale`: numbers of the specification, buckets, refused requests."""

from __future__ import annotations

import argparse
import itertools

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from neuron_fabric.capacity import scale_command  # noqa: E402
from neuron_fabric.errors import InputError  # noqa: E402
from neuron_fabric.hook.ddp_buckets import bucket_assignment, buckets_by_region  # noqa: E402

MIB = 1 << 20


def scaled(*words: str) -> int:
    parser = argparse.ArgumentParser()
    scale_command.add_arguments(parser)
    return scale_command.run(parser.parse_args(list(words)))


def test_a_billion_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert scaled("gpt-1.3b") == 0
    out = capsys.readouterr().out
    assert "gpt-1.3b: 1,315,723,264 parameters" in out
    assert "(head.weight is the same parameter)" in out
    assert ": 11.1%" in out  # with the head, which is the embedding, in FP32
    assert "of 1,207,959,552 elements, 2,359,296 lines" in out
    assert "FP32: norm, embedding, head alone" in out
    assert "G_BINARY: fits in 1 round(s), T_low / T_fp32 0.0" in out
    assert "CAP_WINDOW 1024, CAP_THRESHOLD 1024" in out  # a network that slow: all may miss


def test_a_fast_network_vetoes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert scaled("gpt-124m", "--gbs", "300") == 0
    out = capsys.readouterr().out
    assert "is above 0.80" in out
    assert "CAP_THRESHOLD" not in out
    assert ": 100.0%" in out
    assert scaled("gpt-124m", "--workers", "65") == 0
    assert "FP32: 65 workers: a region has 64 at most" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpt-9t"], "model 'gpt-9t' is not one of gpt-124m, gpt-1.3b"),
        (["gpt-124m", "--workers", "1"], "1 workers"),
        (["gpt-124m", "--gbs", "nan"], "nan GB/s"),
        (["no.such:model"], "gives no model"),
    ],
)
def test_what_cannot_be_scaled(words: list[str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        scaled(*words)
    assert said in str(caught.value)


def test_buckets_hold_all_parameters_from_the_last_on() -> None:
    with torch.device("meta"):
        parameters = [torch.nn.Parameter(torch.empty(n * MIB // 4)) for n in (3, 1, 40, 2, 9, 0, 5)]
    parameters[1].requires_grad_(False)
    buckets = bucket_assignment(parameters, 10 * MIB)
    assert list(itertools.chain(*buckets)) == [6, 5, 4, 3, 2, 0]
    assert buckets[0] == [6]  # the first one is small
    named = list(zip("abcdefg", parameters, strict=True))
    counts = buckets_by_region(named, 10 * MIB, {**dict.fromkeys("gca", ("low",)), "e": ("x",)})
    assert counts["low"] == len([one for one in buckets if {0, 2, 6} & {*one}])
    assert bucket_assignment([parameters[1]], MIB) == []
