# SPDX-License-Identifier: Apache-2.0
"""Samples of a calibration, stored with its profile so that the rule can be applied again.

`NAME.calibration.safetensors` holds for every phase `PHASE/steps`, int64[n], and for every route
and decode `PHASE/ROUTE/DECODE/STATISTIC`, float64[n, parameters]. Statistics are sums over the
elements of a parameter, so that those of a profile region are sums again: `dot` of the mean
gradient and the decoded gradient, `mean2` and `decoded2` their squared norms, and `zeros`, the mean
number of exact zeros of a worker. The decoded gradient has shrink 1. The statistics of `MORE` are
reported and decide nothing (see `calibration.shadow_run`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from neuron_fabric.codec.scale_groups import Granularity
from neuron_fabric.data import DataError, as_object, open_file, parse_json
from neuron_fabric.errors import ProfileError
from neuron_fabric.output import write_bytes
from neuron_fabric.profile.profile_types import (
    DECODES,
    GRANULARITIES,
    Decode,
    Range,
    decode_name,
)

F64 = NDArray[np.float64]
FORMAT = "neuron-fabric-calibration"
VERSION = 1
SUMS = ("dot", "mean2", "decoded2", "zeros")
MORE = ("gate", "margin", "agree", "weighted", "mean1", "mean4", "noise2")
_AGAIN = "calibrate again"


@dataclass(frozen=True)
class Way:
    """Route with a decode in a phase, as a key of measurements; routes include Q2 to Q8."""

    phase: str
    route: str
    decode: str

    @property
    def decodes(self) -> tuple[Decode, Granularity]:
        """Return decode and granularity of the scales, see `decode_name`."""
        for granularity in GRANULARITIES:
            for decode in DECODES:
                if self.decode == decode_name(decode, granularity):
                    return decode, granularity
        raise ValueError(f"decode {self.decode!r} is not known here")

    def __str__(self) -> str:
        return f"{self.phase}/{self.route}/{self.decode}"


@dataclass(frozen=True)
class Samples:
    """Statistics of a training's sampled steps, by phase, route and parameter.

    Attributes:
        workers: Number of workers.
        parameters: Names of the parameters.
        sizes: Number of elements of each.
        steps: Steps of the samples by phase, int64[n].
        sums: By way and statistic, float64[n, parameters]; all of `MORE` may be missing.
    """

    workers: int
    parameters: tuple[str, ...]
    sizes: tuple[int, ...]
    steps: Mapping[str, NDArray[np.int64]]
    sums: Mapping[Way, Mapping[str, F64]]

    def ways(self, phase: str) -> list[Way]:
        """Return the ways that were measured in a phase."""
        return [way for way in self.sums if way.phase == phase]

    def statistics(
        self, way: Way, members: Sequence[int], windows: Sequence[NDArray[np.bool_]]
    ) -> dict[str, Range]:
        """Return the statistics of a profile region: (least, most) over the windows, by name.

        The cosine is that of the worst parameter: each parameter is decoded with a separate scale,
        and in a sum over all of them the one with the largest gradients would hide the others. A
        cosine without a gradient is 0. A margin that is not positive is left out: closed gates and
        random signs lower it as well, so the monitor could not use it as a reference.

        Args:
            way: Route, decode and phase.
            members: Numbers of the region's parameters.
            windows: Mask of the samples of each window.
        """
        of_each = [self.sums[way][name][:, list(members)] for name in SUMS]
        dot, mean2, decoded2, zeros = (one.sum(axis=1) for one in of_each)
        elements = sum(self.sizes[number] for number in members)
        cosines = _cosine(*of_each[:3])
        least = [float(cosines[inside].mean(axis=0).min()) for inside in windows]
        values = {
            "shrink": _ratio(dot, decoded2),
            "error": 1 - _cosine(dot, mean2, decoded2) ** 2,
            "zeros": zeros / max(1, elements),
        }
        more = {name: self.sums[way].get(name) for name in MORE}
        if all(one is not None for one in more.values()):
            sums = {name: np.asarray(one)[:, list(members)].sum(1) for name, one in more.items()}
            values |= {
                "gate": sums["gate"] / max(1, elements),
                "margin": sums["margin"] / max(1, elements),
                "norm_ratio": np.sqrt(_ratio(decoded2, mean2)),
                "snr": _ratio(mean2 * (self.workers - 1), sums["noise2"]),
                "agreement": sums["agree"] / max(1, elements),
                "weighted_agreement": _ratio(sums["weighted"], sums["mean1"]),
                "moment4": _ratio(_ratio(sums["mean4"] * elements, mean2), mean2),
            }
        found: dict[str, Range] = {"cosine": (min(least), max(least))}
        for name, one in values.items():
            means = [float(one[inside].mean()) for inside in windows]
            if name != "margin" or min(means) > 0:
                found[name] = (min(means), max(means))
        return found


def _cosine(dot: F64, mean2: F64, decoded2: F64) -> F64:
    return _ratio(dot, np.sqrt(mean2) * np.sqrt(decoded2))


def _ratio(a: F64, b: F64) -> F64:
    """Return a / b element by element, and 0 where b is not positive."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def samples_path(profile: str | Path) -> Path:
    """Return the path of the samples that belong to the profile file ``profile``."""
    path = Path(profile)
    return path.with_name(f"{path.stem}.calibration.safetensors")


def write_samples(samples: Samples, path: Path) -> None:
    """Write samples to a safetensors file, whole or not at all. Raises OSError."""
    tensors: dict[str, NDArray[np.generic]] = {
        f"{phase}/steps": np.asarray(steps, np.int64) for phase, steps in samples.steps.items()
    }
    for way, sums in samples.sums.items():
        tensors.update({f"{way}/{name}": np.asarray(one, np.float64) for name, one in sums.items()})
    about = {
        "format": FORMAT,
        "version": VERSION,
        "workers": samples.workers,
        "parameters": samples.parameters,
        "sizes": samples.sizes,
    }
    metadata = {"about": json.dumps(about)}  # one key: the library writes several in random order
    write_bytes(path, save(tensors, metadata))


def read_samples(path: Path) -> Samples:
    """Read samples from a safetensors file.

    Raises:
        ProfileError: The file cannot be read or is damaged.
    """
    try:
        open_file(path).close()  # refuse a FIFO, which would block
        with safe_open(path, "np") as file:
            metadata: Mapping[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = as_object(parse_json(metadata.get("about", "{}")))
        if (about.get("format"), about.get("version")) != (FORMAT, VERSION):
            raise DataError(f"no {FORMAT} of version {VERSION}")
        return _samples(about, tensors)
    except OSError as error:
        raise ProfileError(path, f"cannot be read ({error.strerror or error})", _AGAIN) from None
    except (DataError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ProfileError(path, f"is damaged ({error})", _AGAIN) from None


def _samples(about: Mapping[str, object], tensors: Mapping[str, NDArray[np.generic]]) -> Samples:
    names, sizes, workers = about.get("parameters"), about.get("sizes"), about.get("workers")
    if not (isinstance(names, list) and isinstance(sizes, list) and isinstance(workers, int)):
        raise DataError("parameters, sizes or workers are missing")
    if len(names) != len(sizes):
        raise DataError("not every parameter has a size")
    steps: dict[str, NDArray[np.int64]] = {}
    sums: dict[Way, dict[str, F64]] = {}
    for key, tensor in sorted(tensors.items()):
        *way, name = key.split("/")
        if name == "steps" and len(way) == 1 and tensor.ndim == 1:
            steps[way[0]] = tensor.astype(np.int64)
        elif name in (*SUMS, *MORE) and len(way) == 3:
            sums.setdefault(Way(*way), {})[name] = tensor.astype(np.float64)
        else:
            raise DataError(f"tensor {key!r} is not known here")
    for one, those in sums.items():
        shape = (len(steps.get(one.phase, ())), len(names))
        for name in {**dict.fromkeys(SUMS), **those}:
            if name not in those or those[name].shape != shape:
                raise DataError(f"{one}/{name} is not float64{list(shape)}")
            if not np.isfinite(those[name]).all():
                raise DataError(f"{one}/{name} is not finite")
    texts, numbers = tuple(map(str, names)), tuple(int(size) for size in sizes)
    return Samples(workers, texts, numbers, steps, sums)
