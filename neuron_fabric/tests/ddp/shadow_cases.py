# SPDX-License-Identifier: Apache-2.0
"""Cases of calibration: the training stays that of plain DDP; statistics are right; a seed repeats.

Statistics are compared with those of numpy; weights and gradients bit by bit.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import attach
from neuron_fabric.calibration.calibrating import Asked, Trained, profile_by_rule
from neuron_fabric.calibration.calibration_job import (
    CALIBRATE,
    NAMES,
    Job,
    read_report,
    read_rows,
    write_job,
)
from neuron_fabric.calibration.shadow_run import ShadowRouter
from neuron_fabric.codec import Route
from neuron_fabric.codec.draws import Key, draws
from neuron_fabric.codec.scale_groups import Granularity, groups_of
from neuron_fabric.hook.payload import SEED
from neuron_fabric.profile import read_profile, write_profile
from neuron_fabric.profile.samples import Way, read_samples, samples_path, write_samples
from neuron_fabric.tests.ddp.law_testbench import Ranks, Values, law, patched

STEPS, EVERY, CLASSES = 7, 2, 20
BITS = {"G_INT4": 4, "G_INT8": 8}
LARGE = {"words.weight", "up.weight", "down.weight", "head.weight"}
"""Parameters of 1,024 elements or more, which are measured."""


class CaseNet(nn.Module):
    """Embedding whose rows are partly unused, two linear layers, a norm, and a head of 20
    classes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(60, 24)
        self.up, self.down = nn.Linear(24, 448), nn.Linear(448, 60)  # large enough for groups
        self.norm = nn.LayerNorm(60)
        self.head = nn.Linear(60, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(torch.tanh(self.down(torch.tanh(self.up(self.words(x).mean(1))))))
        out: torch.Tensor = self.head(y)
        return out


def _train(ranks: Ranks, workers: int, place: Path | None) -> tuple[Values, Values]:
    """Train seven steps, with a calibration or plain.

    Args:
        ranks: Ranks of the case.
        workers: Number of workers.
        place: Folder for the calibration; None: no calibration.

    Returns:
        The reduced gradients of each step and the last weights, and this worker's own gradients.
    """
    torch.manual_seed(1)
    net = CaseNet()
    group = ranks.of(workers)
    if place is not None and ranks.rank == 0:
        place.mkdir()
        write_job(place, Job(every=EVERY))
    dist.barrier(group=group)
    model = DistributedDataParallel(net, process_group=group, bucket_cap_mb=0.02)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    env = {} if place is None else {CALIBRATE: str(place)}
    session = attach(model, steps=STEPS, optimizer=optimizer, env=env)
    seen: dict[tuple[int, str], torch.Tensor] = {}
    own: dict[tuple[int, str], torch.Tensor] = {}
    for step in range(STEPS):
        draw = torch.Generator().manual_seed(10 * step + ranks.rank)
        x = torch.randint(60, (6, 3), generator=draw)
        y = torch.randint(CLASSES, (6,), generator=draw)
        named = dict(net.named_parameters())
        gradients = torch.autograd.grad(functional.cross_entropy(net(x), y), [*named.values()])
        own |= {(step, name): one for name, one in zip(named, gradients, strict=True)}
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        if session is not None:
            session.observe(loss)
        seen |= {(step, name): p.grad.clone() for name, p in named.items() if p.grad is not None}
        optimizer.step()
    seen |= {(STEPS, name): p.detach() for name, p in net.named_parameters()}
    if session is not None:
        session.report(loss=loss)
        session.close()
    return seen, own


@law("calibration: the training is the plain one, 2 workers", 2)
@law("calibration: the training is the plain one, 3 workers", 3)
def training(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that gradients and weights under a calibration are those of plain DDP bit by bit.

    In the twin the calibration changes a gradient.
    """

    def changes(router: Any, votes: Any, *more: Any) -> None:
        for vote in votes:
            vote.view[:1] += 1e-3

    place = Path(ranks.folder, f"plain-{workers}-{wrong}")
    with patched(ShadowRouter, "_look", changes if wrong else ShadowRouter._look):
        calibrated, _ = _train(ranks, workers, place)
    ranks.equal(calibrated, _train(ranks, workers, None)[0])


@law("calibration: statistics are those of numpy, 2 workers", 2)
@law("calibration: statistics are those of numpy, 3 workers", 3)
def statistics(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check the statistics that a calibration writes against those that numpy computes.

    Parameters below 1,024 elements have none. The twin scales worker 0's gradient by 1.01.
    """
    place = Path(ranks.folder, f"sums-{workers}-{wrong}")
    _, own = _train(ranks, workers, place)
    every = ranks.gather(workers, {key: one.flatten().numpy() for key, one in own.items()})
    if ranks.rank:
        return
    about, steps, sums = read_rows(place)
    ranks.check(steps.tolist() == list(range(0, STEPS, EVERY)), f"samples of steps {steps}")
    shapes = [(name, tuple(one.shape)) for name, one in CaseNet().named_parameters()]
    routes = {route for route, _ in about.ways}
    ranks.check(routes == {"G_BINARY", "G_TERNARY", *BITS}, f"routes {routes} are measured")
    for k, parameter in enumerate(about.trained):
        if parameter.name not in LARGE:
            ranks.check(not sums[..., k].any(), f"{parameter.name} is measured")
            continue
        for row, step in enumerate(steps):
            sent = np.stack([one[step, parameter.name] for one in every])
            sent[0] *= 1 + wrong / 100
            for n, (route, decode) in enumerate(about.ways):
                if route in BITS:
                    keys = [Key(SEED, step, rank, parameter.name) for rank in range(workers)]
                    uniform = np.stack([draws(key, sent.shape[1]) for key in keys])
                    wanted = naive_codes(sent, BITS[route], uniform)
                else:
                    way, granularity = Way("", route, decode).decodes
                    shape = dict(shapes)[parameter.name]
                    ids = group_ids(shape, Route(route), granularity)
                    wanted = naive_statistics(sent, route, way, ids)
                for name, found in zip(NAMES, sums[row, n, :, k], strict=True):
                    place_of = f"parameter {parameter.name}, step {step}, {route} {decode}"
                    near = np.isclose(found, wanted[name], rtol=2e-4, atol=1e-9)
                    ranks.check(near, f"{place_of}: {name} {found:.9g} != {wanted[name]:.9g}")


@law("calibration: one seed gives one file", 2)
def one_seed(ranks: Ranks, workers: int) -> None:
    """Check that two calibrations of one seed write the same profile, samples file and report."""
    texts = []
    for which in "ab":
        place = Path(ranks.folder, f"seed-{which}")
        _train(ranks, workers, place)
        if ranks.rank:
            continue
        report, out = read_report(place), place / "p.toml"
        assert report is not None
        found = (report.steps, [*report.metrics], len(report.weights))
        ranks.check(found == (STEPS, ["loss"], 64), f"the report says {found}")
        ranks.check(report.sent["FP32"] > 0 < report.sent["G_BINARY"], f"sent {report.sent}")
        profile, samples = profile_by_rule(Asked(out, workers), Trained(place, report, None))
        write_profile(profile, out)
        write_samples(samples, samples_path(out))
        texts.append((out.read_bytes(), samples_path(out).read_bytes(), report))
        written = read_profile(out)
        known = (read_samples(samples_path(out)).workers, written.valid_for.optimizer)
        ranks.check(known == (workers, "SGD(momentum=0.9)"), f"{known} are recorded")
        elements = written.region("head").elements
        ranks.check(elements == 61 * CLASSES, f"the head has {elements} elements")
    if texts:
        ranks.check(texts[0] == texts[1], "two calibrations of one seed differ")


# -- statistics by their definitions, without the codec, the reducer and the hook ------------------
RATIO = np.float32(0.7)


def group_ids(shape: tuple[int, ...], route: Route, granularity: Granularity) -> NDArray[np.intp]:
    """Return the number of the group of each element of a contiguous matrix; 0 for all in one."""
    rows, columns = np.indices(shape)
    groups = groups_of(shape, (shape[1], 1), route, granularity)
    block = max(shape) if groups is None else groups.block
    return ((rows if granularity == "row" else columns) // block).reshape(-1)


def naive_votes(
    sent: NDArray[np.float32], route: str, ids: NDArray[np.intp], rms: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return plus minus minus votes, scale and number of open gates, by the definition of a group.

    The scale of a group is the mean over the workers that do not abstain: of the mean magnitude of
    the elements that vote, or with ``rms`` of the root mean square of all.

    Args:
        sent: Gradients of a parameter, float32[workers, elements]; a worker with only 0s abstains.
        route: G_BINARY or G_TERNARY.
        ids: Group of each element, by which elements share a scale.
        rms: Kind of the scale.

    Returns:
        float64[elements] twice, and the gates of all workers.
    """
    size = sent.shape[1]
    voices, scales, gates = np.zeros(size), np.zeros(size), 0
    for own in sent.astype(np.float64):
        gate = np.ones(size, bool)
        for inside in (ids == one for one in np.unique(ids)):
            if route == "G_TERNARY":
                gate[inside] = np.abs(own[inside]) > RATIO * np.float32(np.abs(own[inside]).mean())
            if rms:
                scales[inside] += np.sqrt((own[inside] ** 2).mean())
            elif (counted := inside & gate).any():
                scales[inside] += np.abs(own[counted]).mean()
        gates += int(gate.sum())
        voices += np.where(own < 0, -1.0, 1.0) * gate * own.any()
    return voices, scales / max(1, sum(one.any() for one in sent)), gates


def naive_statistics(
    sent: NDArray[np.float32], route: str, decode: str, ids: NDArray[np.intp]
) -> dict[str, float]:
    """Return the statistics of votes by their definitions, without codec, reducer and hook.

    Args:
        sent: Gradients of a parameter, float32[workers, elements]; a worker with only 0s abstains.
        route: G_BINARY or G_TERNARY.
        decode: ``vote`` (sign of the sum) or ``net`` (the sum itself).
        ids: Group of each element, by which elements share a scale.

    Returns:
        Values by the name of the statistic.
    """
    workers, here = len(sent), max(1, sum(one.any() for one in sent))
    voices, s, gates = naive_votes(sent, route, ids)
    if decode == "net":
        got = s * voices / here
    else:
        tie = 1.0 if route == "G_BINARY" else 0.0
        got = s * np.where(voices > 0, 1.0, np.where(voices < 0, -1.0, tie))
    random = sum(abs(2 * c - workers) * math.comb(workers, c) for c in range(workers + 1))
    random /= workers * 2**workers
    margin = (np.abs(voices) / workers - random).sum() / (1 - random) if workers > 1 else 0.0
    return _sums(sent, got) | {
        "gate": gates / workers,
        "margin": float(margin),
    }


def naive_codes(
    sent: NDArray[np.float32], bits: int, uniform: NDArray[np.float64]
) -> dict[str, float]:
    """Return the statistics of integer codes by their definitions.

    Args:
        sent: Gradients of a parameter, float32[workers, elements].
        bits: Bits of a code.
        uniform: Draws in [0, 1) of the random rounding, float64[workers, elements].

    Returns:
        Values by the name of the statistic.
    """
    more = {"gate": float(sent.shape[1]), "margin": 0.0}
    return _sums(sent, naive_mean(sent, bits, uniform)) | more


def naive_mean(
    sent: NDArray[np.float32], bits: int, uniform: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return the mean float32[elements] of integer codes of the workers' gradients.

    1,024 elements share a unit, by which the largest magnitude of all workers is the largest code.
    A worker with only 0s is not counted.

    Args:
        sent: Gradients of a parameter, float32[workers, elements].
        bits: Bits of a code.
        uniform: Draws in [0, 1) of the random rounding, float64[workers, elements].
    """
    wide = sent.astype(np.float64)
    top, got = 2 ** (bits - 1) - 1, np.zeros(sent.shape[1], np.float32)
    silent = [not one.any() for one in sent]
    for at in range(0, got.size, 1024):
        inside = slice(at, at + 1024)
        unit = np.float32(np.abs(wide[:, inside]).max() / top)
        if float(unit) * top < np.abs(wide[:, inside]).max():
            unit = np.nextafter(unit, np.float32(np.inf))
        if unit > 0:
            codes = np.floor(wide[:, inside] / float(unit) + uniform[:, inside])
            codes[silent] = 0
            got[inside] = float(unit) * codes.sum(axis=0) / max(1, len(sent) - sum(silent))
    return got


def _sums(sent: NDArray[np.float32], got: Any) -> dict[str, float]:
    wide, workers = sent.astype(np.float64), len(sent)
    mean = wide.mean(axis=0)
    agree = np.sign(got) == np.sign(mean)
    return {
        "zeros": float((sent == 0).sum() / workers),
        "dot": float((mean * got).sum()),
        "mean2": float((mean**2).sum()),
        "decoded2": float((got**2).sum()),
        "agree": float(agree.sum()),
        "weighted": float((np.abs(mean) * agree).sum()),
        "mean1": float(np.abs(mean).sum()),
        "mean4": float((mean**4).sum()),
        "noise2": float(((wide - mean) ** 2).sum() / workers),
    }
