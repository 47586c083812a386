# SPDX-License-Identifier: Apache-2.0
"""Files of a replay: the lines that the device returned, and the tensors made of them.

The bench leaves one raw file a step (`NAME.result`, `NAME.planes`, figures in the metadata). The
command line makes the tensors of the capture spec from it; nothing is computed beside the device.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from models.formats import LINE_BYTES, Mode
from neuron_fabric.capture.safetensors_io import open_tensors, write_tensors
from neuron_fabric.data import DataError, parse_json
from neuron_fabric.errors import CaptureError
from neuron_fabric.lock import Busy, Lock
from neuron_fabric.output import check_output, in_the_way
from neuron_fabric.typed import typed
from verif.replay.options import ReplayOptions
from verif.replay.prepare import Lines, Replay, StepWork
from verif.replay.tensors import outputs_from_lines

FORMAT = "neuron-fabric-replay"


@dataclass
class Figures:
    """What a step cost, measured on the device. ``problems`` is empty on a good run.

    ``cycles``: from the first commit to the last answer. Bytes are those of 64-byte lines; flits
    are the link's, control flits included, 68 bytes each.
    """

    cycles: int = 0
    writes: int = 0
    reads: int = 0
    rx_flits: int = 0
    tx_flits: int = 0
    slot_hits: int = 0
    slot_misses: int = 0
    evictions: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def bytes_to_device(self) -> int:
        """Contributions."""
        return self.writes * LINE_BYTES

    @property
    def bytes_from_device(self) -> int:
        """Results and count planes."""
        return self.reads * LINE_BYTES


@dataclass(frozen=True)
class StepResult:
    """What came back of a step."""

    got: dict[str, Lines]
    figures: Figures


def raw_path(folder: Path, step: int) -> Path:
    """Where the bench leaves the lines of a step."""
    return folder / f"raw-{step:06d}.safetensors"


def write_raw(folder: Path, step: int, result: StepResult) -> None:
    """Write the lines of a step, whole or not at all."""
    tensors: dict[str, NDArray[Any]] = {}
    for name, lines in result.got.items():
        tensors[f"{name}.result"] = lines.result
        tensors[f"{name}.planes"] = lines.planes
    write_tensors(raw_path(folder, step), tensors, {"figures": json.dumps(asdict(result.figures))})


def read_raw(folder: Path, step: int) -> StepResult | None:
    """The lines of a step, or None where the bench left none."""
    path = raw_path(folder, step)
    if not path.is_file():
        return None
    file = open_tensors(path)
    names = [n.removesuffix(".result") for n in file.tensors if n.endswith(".result")]
    try:
        figures = typed(Figures, parse_json(file.metadata["figures"]), "figures")
        got = {n: Lines(file.read(f"{n}.result"), file.read(f"{n}.planes")) for n in names}
    except (DataError, KeyError) as error:
        raise CaptureError(path, f"is damaged ({error})", "replay again") from None
    return StepResult(got, figures)


def tensors_of(work: StepWork, got: Mapping[str, Lines]) -> dict[str, NDArray[Any]]:
    """The tensors of the capture spec, in manifest order, from the lines read back."""
    out: dict[str, NDArray[Any]] = {}
    for name, tensor in work.tensors.items():
        lines = got[name]
        planes = lines.planes if tensor.mode.low_bit else None
        made = outputs_from_lines(tensor.mode, tensor.spec.shape, lines.result, planes)
        out |= {f"{name}.{suffix}": array for suffix, array in made.items()}
    return out


def metadata_of(replay: Replay, work: StepWork, figures: Mapping[str, Figures]) -> dict[str, str]:
    """File metadata; ``figures`` by simulator: several when all returned the same tensors."""
    one = next(iter(figures.values()))
    routes = {name: t.mode for name, t in work.tensors.items()}
    cycles = {simulator: f.cycles for simulator, f in figures.items()}
    return {
        "format": FORMAT,
        "version": "1",
        "model": replay.capture.model,
        "step": str(work.step),
        "workers": str(work.plan.workers),
        "epoch": ",".join(map(str, work.epochs)),
        "bytes_to_device": str(one.bytes_to_device),
        "bytes_from_device": str(one.bytes_from_device),
        "fp32_bytes_to_device": str(work.fp32_lines * work.plan.workers * LINE_BYTES),
        "fp32_bytes_from_device": str(work.fp32_lines * LINE_BYTES),
        **options_metadata(replay.options, routes, cycles),
    }


def options_metadata(
    options: ReplayOptions, routes: Mapping[str, Mode], cycles: Mapping[str, int]
) -> dict[str, str]:
    """The part of the metadata that tells what was asked, and of which simulators."""
    return {
        "routes": json.dumps({name: mode.name for name, mode in routes.items()}),
        "simulator": ",".join(cycles),
        "cycles": ",".join(map(str, cycles.values())),
        "tie": options.tie.name,
        "threshold": str(options.threshold),
        "ternary_ratio": repr(options.ratio),
        "seed": str(options.seed),
    }


def out_path(out: Path, step: int, steps: int) -> Path:
    """`FILE.safetensors` for one step, `FILE.step-000003.safetensors` where there are several."""
    if steps == 1:
        return out
    return out.with_name(f"{out.stem}.step-{step:06d}{out.suffix}")


def check_out(out: Path, capture: Path | None) -> None:
    """CaptureError when the results could not be written there; before anything is driven."""
    check_output(out, "--out")
    if capture is not None and out.parent.resolve().is_relative_to(capture.resolve()):
        raise CaptureError(out, "lies inside the capture", "choose another --out")


def check_steps(out: Path, steps: Sequence[int]) -> None:
    """The same for the files of all steps, once these are known."""
    for step in steps:
        path = out_path(out, step, len(steps))
        what = in_the_way(path)
        if what:
            raise CaptureError(path, what, "choose another --out")


def hold(path: Path) -> Lock:
    """The lock on a file that this replay will write; CaptureError when another has it."""
    try:
        return Lock(path).acquire()
    except Busy as busy:
        todo = "wait until it has ended, or choose another --out"
        raise CaptureError(path, busy, todo) from None


def write_out(path: Path, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write a result file, whole or not at all; CaptureError when it cannot be."""
    try:
        write_tensors(path, tensors, metadata, durable=True)
    except OSError as error:
        todo = "make room or choose another --out, and replay again"
        raise CaptureError(path, error.strerror or error, todo) from None
