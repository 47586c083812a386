# SPDX-License-Identifier: Apache-2.0
"""RTL device of the reducer server, and each way in which it may fail: no wrong result is used."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models.modes import Mode
from scripts.common import process
from scripts.plan import listed_mutants
from scripts.run.replay_simulators import Simulators
from verif.host.bulk_device import BulkDevice, BulkFault, DeviceGone, IcarusModel
from verif.host.c_interface import POISON, Block, Kind
from verif.replay.options import ReplayOptions
from verif.serve.rtl_device import OPEN_S, ROUND_S, FallbackLimit, RtlDevice
from verif.serve.served_bucket import ServedBucket, Stretch
from verif.serve.served_device import DeviceError, DeviceLost, ModelDevice

WORKERS, LINES = 3, 4


def bucket(low: Mode = Mode.G_BINARY, lines: int = LINES) -> ServedBucket:
    """Return a bucket of three workers: random lines of mode `low`, as many FP32 lines of ones."""
    sent = np.random.default_rng(1).integers(0, 256, (WORKERS, 2 * lines, 64), np.uint8)
    sent[:, lines:] = np.ones((WORKERS, lines, 16), "<f4").view(np.uint8)
    at = np.arange(2 * lines)
    stretches = (Stretch(low, at[:lines]), Stretch(Mode.FP32, at[lines:]))
    got = np.zeros((8, 2 * lines, 64), np.uint8)
    return ServedBucket(0, 0, 0, stretches, sent, got, (low, Mode.FP32))


@pytest.mark.parametrize("simulator", ["icarus"])
@pytest.mark.parametrize(
    ("mutant", "low", "text"),
    [
        ("element-order", Mode.G_BINARY, r"tensor of bucket 0 G_BINARY line 0 element"),
        pytest.param(
            "int-sum16-line-off-by-one",
            Mode.G_INT4,
            r"bucket 0 G_INT4 line 0 .* SUM16 is",
            marks=pytest.mark.nightly("5 s: a build; broken votes are refused in every change"),
        ),
    ],
)
def test_broken_rtl_is_refused(
    tmp_path: Path, simulator: str, mutant: str, low: Mode, text: str
) -> None:
    edits = next(one.edits for one in listed_mutants.read() if one.id == mutant)
    device = RtlDevice(Simulators(edits).bulk(simulator, {}), tmp_path, simulator, WORKERS)
    with pytest.raises(DeviceError, match=text):
        device.reduce(bucket(low))
    device.close()


@pytest.mark.parametrize("simulator", ["icarus"])
def test_a_job_of_other_modes_has_the_device_started_anew(tmp_path: Path, simulator: str) -> None:
    """Check that a bucket with new modes restarts the device, and one with the same modes does not.

    The time limit of a bucket includes a restart: a killed simulator must not have to start
    within the time of a bucket.
    """
    device = RtlDevice(Simulators().bulk(simulator, {}), tmp_path, simulator, WORKERS)
    for low, anew in ((Mode.G_BINARY, False), (Mode.G_INT4, True), (Mode.G_INT4, False)):
        one, other, before = bucket(low), bucket(low), device._device
        rest = OPEN_S if anew else 0.0
        assert device.seconds(one) == ROUND_S + one.contributions / 20 + rest
        counts = device.reduce(one)
        assert counts.cycles > 0
        assert counts.rounds == 1
        assert (device._device is not before) == anew
        ModelDevice().reduce(other)
        assert np.array_equal(one.got, other.got)
    device.close()
    assert device.seconds(one) == ROUND_S + one.contributions / 20 + OPEN_S


def wrong_bit(block: Block) -> None:
    block.got[0, 5] ^= 1


def poison(block: Block) -> None:
    block.answers[block.ops["kind"] == Kind.READ] |= POISON


def fault(_: Block) -> None:
    raise BulkFault("assertion\nin the RTL")


def gone(_: Block) -> None:
    raise DeviceGone("the simulator ended")


FAULTS: dict[str, tuple[Callable[[Block], None], type[Exception], str]] = {
    "bit": (wrong_bit, DeviceError, "icarus: step 0 tensor of bucket 0 G_BINARY line 0 element 40"),
    "poison": (poison, DeviceError, "reads were poisoned"),
    "fault": (fault, DeviceError, "icarus: assertion in the RTL"),
    "gone": (gone, DeviceLost, "icarus: the simulator ended"),
}


class Opened:
    """Design whose `open` returns a device that is open already."""

    build_seconds = 0.0

    def __init__(self, device: BulkDevice) -> None:
        self.device = device

    def open(self, *_: object) -> BulkDevice:
        return self.device


@pytest.mark.parametrize("simulator", ["icarus"])
@pytest.mark.parametrize(("spoil", "kind", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_what_is_wrong_is_never_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    simulator: str,
    spoil: Callable[[Block], None],
    kind: type[Exception],
    text: str,
) -> None:
    log2 = ModelDevice().params.mem_lines_log2
    opened = Simulators().bulk(simulator, {}).open(tmp_path, log2, 1)
    run = opened.run

    def spoiled(block: Block) -> None:
        run(block)
        spoil(block)

    monkeypatch.setattr(opened, "run", spoiled)
    device, one = RtlDevice(Opened(opened), tmp_path, simulator, WORKERS), bucket()
    with pytest.raises(kind, match=text):
        device.reduce(one)
    assert not one.got.any()
    device.close()


def test_a_simulator_that_never_comes(tmp_path: Path) -> None:
    model = IcarusModel(("false",), 0.0, process.start)
    with pytest.raises(DeviceError, match="icarus: the simulator ended"):
        RtlDevice(model, tmp_path, "icarus", WORKERS)


@pytest.mark.parametrize("simulator", ["icarus"])
def test_fallback_of_a_bucket(tmp_path: Path, simulator: str) -> None:
    """Check that a bucket reports FALLBACK if its misses exceed the limit, not if they reach it.

    The first of three contributions to a line is a miss.
    """
    model = Simulators().bulk(simulator, {})
    for check, fallen in ((FallbackLimit(1, 6), 1), (FallbackLimit(3, 6), 0), (None, 0)):
        device = RtlDevice(model, tmp_path, simulator, WORKERS, capacity=check)
        assert [device.reduce(bucket()).fallback for _ in range(3)] == [fallen] * 3, check
        device.close()


@pytest.mark.parametrize("simulator", ["icarus"])
@pytest.mark.parametrize(
    ("slots", "apart"),
    [
        (8, True),
        (8, False),
        pytest.param(64, True, marks=pytest.mark.nightly("5 s: a build; 8 slots suffice by day")),
    ],
)
def test_slots_that_are_too_few(tmp_path: Path, simulator: str, slots: int, apart: bool) -> None:
    """Check that FALLBACK is raised with 8 slots and workers apart by 8 lines, and not otherwise.

    More than 8 misses among 16 contributions occur only if workers are apart by as many lines as
    there are slots. The results are equal to those of the models.
    """
    few, check = {"SLOTS": slots}, FallbackLimit(8, 16)
    # Few marks: while their rows are emptied after reset, a miss that needs a slot waits.
    model = Simulators().bulk(simulator, {**few, "WRITTEN_LOG2": 5})
    options = ReplayOptions(parameters=few)
    device = RtlDevice(model, tmp_path, simulator, WORKERS, options, check, apart)
    one, other = bucket(lines=8), bucket(lines=8)
    assert device.reduce(one).fallback == int(slots == 8 and apart)
    device.close()
    ModelDevice().reduce(other)
    assert np.array_equal(one.got, other.got)


@pytest.mark.parametrize(("misses", "window"), [(6, 6), (-1, 6), (1, 257), (0, 0)])
def test_checks_that_the_device_has_not(misses: int, window: int) -> None:
    with pytest.raises(ValueError, match="there are 1 to 256, and fewer misses"):
        FallbackLimit(misses, window)
