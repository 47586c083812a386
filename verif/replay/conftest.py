# SPDX-License-Identifier: Apache-2.0
"""Fixtures for `nf replay` of a small capture, with the device model in place of a simulator."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

from cocotbext.cxl.wire.messages import M2SRwD
from models.modes import Mode
from neuron_fabric.capture import Capture
from neuron_fabric.capture.safetensors_io import open_tensors
from neuron_fabric.data import parse_json
from scripts.common.paths import ROOT
from scripts.run.replay_simulators import Simulators
from verif.conftest import STEPS, BulkModel, Damage, SignalModel, expected_outputs, nf_replay
from verif.replay.stimulus_file import Stimulus

SHIPPED = Path(__file__).parents[2] / "captures" / "digits-resnet-8x"
MIX = ("a.weight=G_BINARY", "c.*=G_TERNARY", "b=G_TERNARY", "s=G_BINARY", "*=FP32")
BULK = ("--transport", "bulk")
Device = TypeVar("Device", bound=Simulators)


@dataclass(frozen=True)
class Shown:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """Return the last line of the standard output."""
        return self.out.splitlines()[-1]


@dataclass(frozen=True)
class Command(Generic[Device]):
    """Command `nf replay CAPTURE WORDS ...`, with a device model in place of the simulators.

    Attributes:
        device: Device model.
        capture: Folder of the capture; None leaves it out.
        folder: Folder for results.
        words: Words that each call begins with.
    """

    device: Device
    capture: Path | None
    folder: Path
    capsys: pytest.CaptureFixture[str]
    words: tuple[object, ...] = ()

    @property
    def out(self) -> Path:
        """Return the usual name for --out, which does not exist before."""
        return self.folder / "out.safetensors"

    def of(self, capture: Path | None, *words: object) -> Command[Device]:
        """Return the same command for another capture, with more words."""
        return replace(self, capture=capture, words=(*self.words, *words))

    def run(self, *words: object) -> Shown:
        """Run the command with these words appended; return exit code and output."""
        capture = () if self.capture is None else (self.capture,)
        code = nf_replay(self.device, *capture, *self.words, *words)
        return Shown(code, *self.capsys.readouterr())

    def passes(self, *words: object) -> Shown:
        """Run the command, check that it exits with 0 (every line is right), and return its
        output.
        """
        shown = self.run(*words)
        assert shown.code == 0, shown.err
        return shown

    def fails(self, *words: object) -> Shown:
        """Run the command, check that it exits with 1 and leaves no result file, and return its
        output.
        """
        shown = self.run(*words)
        assert shown.code == 1, shown.err
        assert "FAILED" in shown.last
        assert not list(self.folder.glob("out*.safetensors"))
        return shown

    def refuses(self, *words: object) -> str:
        """Run the command, check that it refuses its input (exit code 2, one line), and return that
        line.
        """
        shown = self.run(*words)
        assert shown.code == 2, shown
        assert len(shown.err.splitlines()) == 1
        assert shown.err.startswith("nf replay: ")
        return shown.err

    def stimulus(self, out: str) -> Stimulus:
        """Return the stimulus of a failed replay; check that the copy, of which the printed output
        ``out`` gives the name, is the same.
        """
        path = next(self.device.files.rglob("stimulus.json"))
        (copy,) = re.findall(r"nf replay --stimulus (\S+) --sim verilator --waves", out)
        assert (ROOT / copy).read_bytes() == path.read_bytes()
        return Stimulus.read(path)

    def files(self, out: Path | None = None) -> list[bytes]:
        """Return the contents of the result files of both steps, by default those of
        `Command.out`.
        """
        return [path.read_bytes() for path in step_files(out or self.out)]


def inverted(worker: int, bit: int) -> Damage:
    """Return damage that inverts a bit in all contributions of a worker but constant ones."""

    def damage(_count: int, message: M2SRwD) -> M2SRwD:
        if message.ldid != worker or len(set(message.data)) == 1:
            return message
        return replace(message, data=bytes([message.data[0] ^ 1 << bit]) + message.data[1:])

    return damage


def step_files(out: Path) -> list[Path]:
    """Return the names of the result files of a replay of both steps."""
    return [out.with_name(f"{out.stem}.step-{step:06d}{out.suffix}") for step in STEPS]


@pytest.fixture
def signal(
    capture: Path, signal_model: SignalModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Command[SignalModel]:
    """Return the command at signal level, for the small capture."""
    return Command(signal_model, capture, tmp_path, capsys)


@pytest.fixture
def bulk(
    capture: Path, model: BulkModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Command[BulkModel]:
    """Return the command in bulk, for the small capture."""
    return Command(model, capture, tmp_path, capsys, BULK)


@pytest.fixture(params=["signal", "bulk"])
def either(signal: Command[SignalModel], request: pytest.FixtureRequest) -> Command[SignalModel]:
    """Return the command with each transport in turn, for input that is refused before any
    build.
    """
    return replace(signal, words=("--transport", request.param))


def check_file(path: Path, capture: Path, step: int, **options: Any) -> dict[str, str]:
    """Check every tensor of a result file against the reference models; return its metadata.

    Args:
        path: Result file.
        capture: Folder of the capture.
        step: Training step.
        options: Options of `expected_outputs`.
    """
    file = open_tensors(path)
    routes = {name: Mode[route] for name, route in parse_json(file.metadata["routes"]).items()}
    wanted = {}
    for name, values in Capture.open(capture).load(step).items():
        for suffix, array in expected_outputs(values, routes[name], **options).items():
            wanted[f"{name}.{suffix}"] = array
    assert list(file.tensors) == list(wanted)
    for name, array in wanted.items():
        got = file.read(name)
        assert (got.dtype, got.shape) == (array.dtype, array.shape)
        assert got.tobytes() == array.tobytes(), name
    return file.metadata


def check_files(out: Path, capture: Path, **options: Any) -> list[dict[str, str]]:
    """Check the result files of both steps against the reference models; return their metadata."""
    paths = zip(step_files(out), STEPS, strict=True)
    return [check_file(path, capture, step, **options) for path, step in paths]
