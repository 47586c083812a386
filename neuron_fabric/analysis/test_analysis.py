# SPDX-License-Identifier: Apache-2.0
"""Tests of the analysis of captures: figures against counts by hand, warnings with their twins."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from neuron_fabric import __main__
from neuron_fabric.analysis import OPTIONS, TensorFigures, analysed, label_of, warnings_of
from neuron_fabric.capture import Capture, ModuleSpec
from neuron_fabric.capture.writer import write_capture
from neuron_fabric.codec import F32, Route
from neuron_fabric.profile import PhaseRoute

FUSED = Path(__file__).parents[2] / "captures" / "gpt2-fused-qkv"
needs_capture = pytest.mark.skipif(not FUSED.is_dir(), reason="the wheel holds no capture")


def drawn(workers: int, rows: int = 24, columns: int = 64, seed: int = 1) -> F32:
    """Return gradients with a common part, zeros and columns of unlike size."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1, rows, columns)) + rng.normal(size=(workers, rows, columns))
    x[rng.random(x.shape) < 0.1] = 0
    return (x * np.where(np.arange(columns) < 32, 1, 50)).astype(np.float32)


def figures(x: F32, how: PhaseRoute) -> TensorFigures:
    found = analysed(x, how, 3, "w")
    assert found is not None
    return found


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("decode", ["vote", "net"])
def test_votes_are_those_of_a_count_by_hand(workers: int, decode: str) -> None:
    """Check every figure of G_BINARY against sums over numpy booleans."""
    x = drawn(workers)
    flat = x.reshape(workers, -1).astype(np.float64)
    net = np.where(flat >= 0, 1, -1).sum(axis=0)
    scale = np.abs(flat).mean()
    decoded = scale * (net / workers if decode == "net" else np.where(net >= 0, 1, -1))
    mean = flat.mean(axis=0)
    one = figures(x, PhaseRoute(Route.G_BINARY, decode))  # type: ignore[arg-type]
    norms = np.linalg.norm(decoded), np.linalg.norm(mean)
    assert one.cosine == pytest.approx(decoded @ mean / norms[0] / norms[1], abs=1e-6)
    assert one.norm_ratio == pytest.approx(norms[0] / norms[1], rel=1e-5)
    assert one.unanimity == np.mean(np.abs(net) == workers)
    assert one.ties == np.mean(net == 0)
    assert one.margins == tuple(np.mean(np.abs(net) == n) for n in range(workers + 1))
    assert (one.zeros, one.open_gates, one.saturation) == (np.mean(flat == 0), 1.0, None)
    lines = -(-flat.shape[1] // 512)
    assert (one.up, one.tensor, one.step) == (64 * lines + 8, "w", 3)
    assert one.down == 64 * lines * (workers.bit_length() if decode == "net" else 1) + 8


def test_gates_are_those_of_a_count_by_hand() -> None:
    x = drawn(4)
    flat = x.reshape(4, -1).astype(np.float64)
    opened = np.abs(flat) > np.float32(0.7) * np.abs(flat).mean(axis=1, keepdims=True)
    net = (np.sign(flat) * opened).sum(axis=0)
    one = figures(x, PhaseRoute(Route.G_TERNARY))
    assert one.open_gates == pytest.approx(opened.mean(), abs=1e-3)
    assert one.ties == pytest.approx(np.mean(net == 0), abs=2e-3)
    assert sum(one.margins) == pytest.approx(1)


@pytest.mark.parametrize("route", [Route.G_INT4, Route.G_INT8])
def test_codes_are_near_the_mean(route: Route) -> None:
    """Check that more bits are nearer, and that equal magnitudes saturate all codes."""
    one = figures(drawn(3), PhaseRoute(route))
    assert one.cosine is not None
    assert one.cosine > (0.9999 if route == Route.G_INT8 else 0.98)
    assert one.saturation is not None
    assert 0 < one.saturation < 0.02
    assert (one.unanimity, one.ties, one.margins, one.open_gates) == (None, None, (), None)
    alike = np.sign(drawn(3)) + (drawn(3) == 0)
    assert figures(alike, PhaseRoute(route)).saturation == 1


def test_scales_of_columns_mend_columns_of_unlike_size() -> None:
    x = drawn(4, 192)
    whole, grouped = (
        figures(x, PhaseRoute(Route.G_BINARY, granularity=one)).cosine
        for one in ("tensor", "column")
    )
    assert whole is not None
    assert grouped is not None
    assert grouped > whole + 0.05
    assert analysed(x[:, :, 0], PhaseRoute(Route.G_BINARY, granularity="column")) is None


@pytest.mark.parametrize("how", OPTIONS, ids=label_of)
def test_what_is_not_finite_or_zero(how: PhaseRoute) -> None:
    """Check that a NaN, an overflow and zeros of one or all workers give no figure that is none."""
    zero = np.zeros((3, 96, 96), np.float32)
    one = analysed(zero, how)
    assert one is None or (one.cosine, one.zeros, one.finite) == (None, 1.0, True)
    partly = np.concatenate([zero[:1], drawn(2, 96, 96)])
    one = analysed(partly, how)
    assert one is None or (one.cosine is not None and one.cosine > 0.4)
    partly[2, 0, 0] = np.nan
    one = analysed(partly, how)
    assert one is None or not one.finite
    assert one is None or one.cosine is None
    one = analysed(np.sign(drawn(3, 96, 96)) * np.float32(3e38), how)  # their sum is infinite
    assert one is None or (one.cosine is not None and one.cosine >= 0)


def opened(folder: Path, x: F32, *modules: ModuleSpec) -> Capture:
    """Write a capture of one tensor, w, in step 1 and return it, opened."""
    return write_capture(folder, "net", {1: {"w": x}}, modules=modules)


def of_capture(capture: Capture) -> list[str]:
    loaded = capture.load(1)
    found = [analysed(x, how, 1, name) for name, x in loaded.items() for how in OPTIONS]
    return warnings_of(capture, [one for one in found if one is not None])


SOUND = drawn(4, 192)
SOUND[SOUND == 0] = 1
SOUND[:, :, 32:] /= 50


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("", ""),
        ("nan", "w: has NaN or infinity in step 1: no route sends it"),
        ("zero", "w: all gradients are 0: every worker abstains"),
        ("zeros", "w: 50% of its gradients are exactly 0, and G_BINARY gives each a sign"),
        ("fused", 'a fused layer; granularity = "column"'),
        ("tied", "w: several modules share it (a tied head)"),
        ("noise", "below the floor of 0.45"),
    ],
)
def test_warnings(tmp_path: Path, change: str, said: str) -> None:
    """Check that each fault gives its warning alone, and a sound tensor none."""
    x = SOUND.copy()
    if change == "nan":
        x[1, 2, 3] = np.nan
    if change == "zero":
        x[:] = 0
    if change == "zeros":
        x[:, ::2] = 0
    if change == "fused":
        x[:, :, :16] *= 1000
    if change == "noise":
        x = np.random.default_rng(1).normal(size=x.shape).astype(np.float32) ** 9
    both = ModuleSpec("a", "Embedding", ("w",)), ModuleSpec("b", "Linear", ("w",))
    found = of_capture(opened(tmp_path / "c", x, *both[: 2 if change == "tied" else 1]))
    assert len(found) == (1 if said else 0), found
    assert said in "".join(found)


def nf(*words: object) -> int:
    """Run `python -m neuron_fabric analyse WORDS` and return its exit code."""
    try:
        return __main__.main(["analyse", *map(str, words)])
    except SystemExit as end:
        return int(end.code or 0)


@needs_capture
def test_the_fused_layers_of_gpt2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check table, warnings, numbers and page of a real capture."""
    assert nf(FUSED, tmp_path / "new" / "out") == 0
    said = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:3] for line in said.splitlines() if ".c_" in line}
    whole, grouped = map(float, rows["transformer.h.0.attn.c_attn.weight"])
    assert whole < 0.41
    assert grouped > 0.65
    fused = re.findall(r"warning: (\S+): G_BINARY with one scale .* a fused layer", said)
    assert fused == [f"transformer.h.{n}.attn.c_attn.weight" for n in (0, 1)]
    numbers = json.loads((tmp_path / "new/out/analysis.json").read_text("utf-8"))
    assert f"warning: {numbers['warnings'][0]}" in said
    one = numbers["figures"][0]
    assert {one["route"] for one in numbers["figures"]} == {*map(label_of, OPTIONS)}
    assert len(one["margins"]) == numbers["workers"] + 1
    text = (tmp_path / "new/out/index.html").read_text("utf-8")
    assert "<script" not in text
    assert "a fused layer" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none"], "none: no such folder"),
        (["c", "--steps", "7"], "no step 7; the capture has 1"),
        (["c", "--tensor", "x*"], "--tensor x*: matches nothing; name one of w"),
        (["c", "--route", "G_UNARY"], "--route G_UNARY: matches nothing; name one of G_BINARY"),
        (["c", "file/out"], "file/out: cannot be written to as a folder (Not a directory); give"),
        (["c", "/proc/out"], "/proc/out: cannot be written to as a folder"),
        (["small"], "has no step and tensor of 1,024 elements to analyse"),
    ],
)
def test_bad_words(
    words: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    opened(Path("c"), SOUND)
    opened(Path("small"), SOUND[:, :4])
    Path("file").touch()
    assert nf(*words) == 2
    assert said in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
