# SPDX-License-Identifier: Apache-2.0
"""Reducers of a training: the RTL's against the models, and each way in which it may fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from models.line_packing import Mode
from neuron_fabric.capture import TensorSpec
from scripts.cli.replay import Simulators
from scripts.common import process
from scripts.plan import mutants
from verif.conftest import expected_outputs, gradients, pack_workers
from verif.host.bulk_device import BulkDevice, BulkFault, IcarusModel
from verif.host.c_interface import POISON, Block, Kind
from verif.replay.live import Contribution, ModelReducer, Reducer, ReducerError, RtlReducer
from verif.replay.options import ReplayOptions
from verif.replay.tensors import outputs_from_lines

MODES = {
    "a.weight": Mode.G_BINARY,
    "a.bias": Mode.FP32,
    "b": Mode.G_TERNARY,
    "s": Mode.G_BINARY,
    "c.weight": Mode.G_TERNARY,
}


def contributions(seed: int, workers: int = 4) -> list[Contribution]:
    return [
        Contribution(
            TensorSpec(name, values.shape[1:]), MODES[name], pack_workers(values, MODES[name])
        )
        for name, values in gradients(seed, workers).items()
    ]


def check(reducer: Reducer, seed: int) -> None:
    """A step through the reducer gives what the models expect of the gradients."""
    returned = reducer.reduce(contributions(seed))
    for name, values in gradients(seed, workers=4).items():
        lines = returned[name]
        planes = lines.planes if MODES[name].low_bit else None
        got = outputs_from_lines(MODES[name], values.shape[1:], lines.result, planes)
        for suffix, array in expected_outputs(values, MODES[name]).items():
            assert got[suffix].tobytes() == array.tobytes(), (name, suffix)


def test_the_models() -> None:
    reducer = ModelReducer()
    for seed in (1, 2):
        check(reducer, seed)
    assert (reducer.totals.steps, reducer.totals.lines) == (2, 2 * 7)


@pytest.mark.parametrize("simulator", ["verilator", "icarus"])
def test_the_rtl(tmp_path: Path, simulator: str) -> None:
    """Three steps of one device, bit for bit as the models."""
    with RtlReducer(Simulators().bulk(simulator, {}), tmp_path, simulator) as reducer:
        for seed in (1, 2, 3):
            check(reducer, seed)
    totals = reducer.totals
    assert (totals.steps, totals.lines, totals.mismatches) == (3, 3 * 7, 0)
    assert totals.cycles > 0


@pytest.mark.parametrize("simulator", ["icarus"])
def test_broken_rtl_stops_the_training(tmp_path: Path, simulator: str) -> None:
    edits = next(mutant.edits for mutant in mutants.read() if mutant.id == "element-order")
    with RtlReducer(Simulators(edits).bulk(simulator, {}), tmp_path, simulator) as reducer:
        with pytest.raises(ReducerError, match=r"tensor a\.weight G_BINARY line 0 element"):
            reducer.reduce(contributions(1))
        assert reducer.totals.mismatches == 1


def wrong_bit(block: Block) -> None:
    block.got[0, 5] ^= 1


def poison(block: Block) -> None:
    block.answers[block.ops["kind"] == Kind.READ] |= POISON


def fault(_: Block) -> None:
    raise BulkFault("assertion\nin the RTL")


FAULTS: dict[str, tuple[Callable[[Block], None], str]] = {
    "bit": (wrong_bit, "icarus: step 0 tensor a.weight G_BINARY line 0 element 40"),
    "poison": (poison, "reads came back poisoned"),
    "fault": (fault, "icarus: assertion in the RTL"),
}


class Opened:
    """A model that is open already."""

    build_seconds = 0.0

    def __init__(self, device: BulkDevice) -> None:
        self.device = device

    def open(self, *_: object) -> BulkDevice:
        return self.device


@pytest.mark.parametrize("simulator", ["icarus"])
@pytest.mark.parametrize(("spoil", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_what_is_wrong_is_never_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    simulator: str,
    spoil: Callable[[Block], None],
    text: str,
) -> None:
    log2 = ReplayOptions().device.mem_lines_log2
    device = Simulators().bulk(simulator, {}).open(tmp_path, log2, 1)
    run = device.run

    def spoiled(block: Block) -> None:
        run(block)
        spoil(block)

    monkeypatch.setattr(device, "run", spoiled)
    with (
        RtlReducer(Opened(device), tmp_path, simulator) as reducer,
        pytest.raises(ReducerError, match=text),
    ):
        reducer.reduce(contributions(1))


def test_a_simulator_that_never_comes(tmp_path: Path) -> None:
    model = IcarusModel(("false",), 0.0, 0.0, process.start)
    with (
        pytest.raises(ReducerError, match="icarus: the simulator ended"),
        RtlReducer(model, tmp_path, "icarus"),
    ):
        pass


def test_more_than_the_device_takes() -> None:
    many = contributions(1, workers=65)
    reducer = RtlReducer(IcarusModel((), 0.0, 0.0, process.start), Path())
    with pytest.raises(ReducerError, match="65 workers, the device takes 64"):
        reducer.reduce(many)
