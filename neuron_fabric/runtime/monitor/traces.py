# SPDX-License-Identifier: Apache-2.0
"""Synthetic trainings for the monitor's bench: made up, not recorded.

Workers' gradients are drawn around a mean whose direction turns slowly and whose share in them
falls, as in a training; signs are voted on and decoded as the runtime does, and all signals are
computed from that. Faults are put in where they would arise: into gradients, votes, scales, losses
or counters, and only what is low-bit at the time is touched by a fault of the low-bit path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuron_fabric.codec.routes import Route
from neuron_fabric.runtime.monitor.consensus import random_margin
from neuron_fabric.runtime.monitor.step_report import ReducerCounters, StepReport
from neuron_fabric.runtime.sampling import Agreements

F64 = npt.NDArray[np.float64]
DRAWN = 512
"""Elements that are drawn of each region, whatever its size."""
REGIONS: Mapping[str, int] = {"head": 9_700, "conv": 32_256, "stem": 11_000}


@dataclass(frozen=True)
class Fault:
    """What goes wrong, in words; the steps within which it has to be found (0: the thresholds let
    it pass), the region that it concerns ("" for the job), and the workers of its training."""

    words: str
    within: int = 25
    region: str = ""
    workers: int = 4


_ONE_SAMPLE = 55  # 50 steps between samples, and the distance of transitions
FAULTS: Mapping[str, Fault] = {
    "bad_head": Fault("softmax head: the vote always says +", _ONE_SAMPLE, "head"),
    "scale_x16": Fault("decoded 16 times too large", 25, "conv"),
    "scale_16th": Fault("decoded 16 times too small", 25, "conv"),
    "flipped_worker": Fault("one worker of two has the wrong sign", 25, "conv", 2),
    "flipped_of_8": Fault("one worker of eight has the wrong sign", 25, "conv", 8),
    "flipped_vote": Fault("the vote has the wrong sign", 25, "conv"),
    "stuck_votes": Fault("the same votes in every step", 25, "conv"),
    "drift_of_zeros": Fault("gradients become zeros, which vote +", _ONE_SAMPLE, "stem"),
    "mixed_lines": Fault("workers' lines belong to different places", 25, "stem"),
    "loss_spike": Fault("the loss jumps to 6 times for 10 steps"),
    "divergence": Fault("the loss creeps up, 1 % a step, while it fell (25 asked)", 65),
    "nonfinite": Fault("a NaN in every second step"),
    "lost": Fault("a bucket without a result"),
    "late": Fault("late answers in every step"),
    "device_fallback": Fault("the device raises FALLBACK"),
    "mismatch": Fault("lines differ from the shadow check"),
    "fast_link": Fault("the FP32 network gets 20 times faster"),
}


HEALTHY = Fault("nothing")
CREEP = 1.01


def level(step: int, steps: int) -> float:
    """The mean of a healthy loss."""
    return float(0.3 + 4.0 * np.exp(-4 * step / steps))


class Trace:
    """One training of made-up gradients; ``fault`` begins at step ``at``."""

    def __init__(self, seed: int, fault: str = "", at: int = 251, steps: int = 500) -> None:
        self._draw = np.random.default_rng(seed)
        self._fault, self._at, self._steps = fault, at, steps
        self.workers = FAULTS.get(fault, HEALTHY).workers
        self._mean = {name: self._unit() for name in REGIONS}
        self._stuck = {name: np.sign(self._unit()) for name in REGIONS}
        self.noise = float(self._draw.uniform(0.03, 0.08))
        """Standard deviation of a loss, of its mean."""
        self._run = {name: np.zeros(DRAWN) for name in REGIONS}
        self._sign = {name: np.zeros(DRAWN) for name in REGIONS}
        self._agreements: list[dict[str, float]] = [{} for _ in range(self.workers)]
        self.others: list[StepReport] = []
        """What the other ranks tell of the last step: their agreements."""

    def report(self, step: int, routes: Mapping[str, Any], samples: frozenset[str]) -> StepReport:
        """What rank 0 tells of a step in which the regions took ``routes``."""
        norms, cosines, margins, full = {}, {}, {}, {}
        low_bytes = fp32_bytes = 0
        voted = set()
        for name, elements in REGIONS.items():
            low = str(routes[name].route) != Route.FP32
            fp32_bytes += 0 if low else 4 * elements
            low_bytes += elements // 8 if low else 0
            if not low and name not in samples:
                continue
            net = str(routes[name].decode) == "net"
            mean, decoded, codes = self._reduced(step, name, low, net)
            counts = (codes > 0).sum(axis=0)
            self._agree(name, codes, np.sign(decoded))
            voted.add(name)
            square = float(mean @ mean)
            norms[name] = (float(decoded @ decoded), square if name in samples else None)
            if name in samples:
                cosines[name] = (float(mean @ decoded), square, float(decoded @ decoded))
            if low and net:
                margins[name] = (int(np.abs(2 * counts - self.workers).sum()), DRAWN)
            if low:
                full[name] = self._saturation(name, np.sign(decoded))
        told = [{name: one[name] for name in voted} for one in self._agreements]
        self.others = [StepReport(step, agreements=one) for one in told[1:]]
        faster = 20 if self._is("fast_link", step) else 1
        return StepReport(
            step,
            losses=self._loss(step, bool(low_bytes)),
            norms=norms,
            cosines=cosines,
            margins=margins,
            nonfinite=int(self._is("nonfinite", step) and step % 2 == 0),
            saturation=full,
            reducer=self._reducer(step, bool(low_bytes)),
            bytes={
                Route.FP32: (fp32_bytes * 3 // 2, fp32_bytes * 3 // 2),
                Route.G_BINARY: (low_bytes, low_bytes),
            },
            seconds={"link_latency": 1e-4 / faster, "link_mib": 1e-2 / faster},
            agreements=told[0],
        )

    def _is(self, fault: str, step: int) -> bool:
        return self._fault == fault and step >= self._at

    def _unit(self) -> F64:
        drawn = self._draw.standard_normal(DRAWN)
        return drawn / np.sqrt(drawn @ drawn)

    def _gradients(self, step: int, name: str) -> F64:
        """float64[workers, DRAWN]: the mean's part falls from 1.2 to 0.4 times the noise."""
        turned = self._mean[name] + 0.1 * self._unit()
        mean = self._mean[name] = turned / np.sqrt(turned @ turned)
        noise = self._draw.standard_normal((self.workers, DRAWN)) / np.sqrt(DRAWN)
        part = 1.2 - 0.8 * min(step / self._steps, 1.0)
        if self._fault == "bad_head" and name == "head" and step >= self._at:
            rare = (
                self._draw.random((self.workers, DRAWN)) < 0.12
            )  # one class's own samples: large, -
            head: F64 = 0.18 * np.where(rare, -0.88, 0.12) + 0.01 * noise
            return head
        drawn: F64 = part * mean + noise
        if self._fault == "drift_of_zeros" and name == FAULTS[self._fault].region:
            share = min(max(step - self._at, 0) / 20, 1.0) * 0.97
            drawn[self._draw.random(drawn.shape) < share] = 0.0
        return drawn

    def _reduced(self, step: int, name: str, low: bool, net: bool) -> tuple[F64, F64, F64]:
        """The FP32 mean, the decoded vote, and each worker's votes."""
        drawn = self._gradients(step, name)
        mean: F64 = drawn.mean(axis=0)
        codes = drawn.copy()
        wrong = low and FAULTS.get(self._fault, HEALTHY).region == name and step >= self._at
        if wrong and self._fault in ("flipped_worker", "flipped_of_8"):
            codes[0] = -codes[0]
        if wrong and self._fault == "mixed_lines":
            codes = np.stack([np.roll(one, 64 * n) for n, one in enumerate(codes)])
        votes = np.where(codes >= 0, 1.0, -1.0)
        counted = votes.sum(axis=0)
        vote = counted / self.workers if net else np.where(counted >= 0, 1.0, -1.0)
        scale = float(np.abs(drawn).mean())
        if wrong:
            vote = {"flipped_vote": -vote, "stuck_votes": self._stuck[name]}.get(self._fault, vote)
            scale *= {"scale_x16": 16.0, "scale_16th": 1 / 16}.get(self._fault, 1.0)
        return mean, scale * vote, votes

    def _agree(self, name: str, votes: F64, vote: F64) -> None:
        """As `sampling.Agreements` does."""
        random = random_margin(self.workers)
        for own, running in zip(votes, self._agreements, strict=True):
            product = own * vote
            share = float((product > 0).sum() / max(1, np.count_nonzero(product)))
            running[name] = Agreements.running_mean(running.get(name, 0.0), share, random)

    def _saturation(self, name: str, sign: F64) -> float:
        self._run[name] = np.where(sign == self._sign[name], self._run[name] + 1, 0)
        self._sign[name] = sign
        return float((self._run[name] >= 32).mean())

    def _loss(self, step: int, low: bool) -> float:
        loss = level(step, self._steps)
        if self._is("loss_spike", step) and step < self._at + 10:
            loss *= 6
        if self._is("divergence", step) and low:
            loss *= CREEP ** (step - self._at)
        return float(loss * (1 + self.noise * self._draw.standard_normal()))

    def _reducer(self, step: int, low: bool) -> ReducerCounters:
        if not low:
            return ReducerCounters()
        return ReducerCounters(
            fallback=self._fault == "device_fallback" and step == self._at,
            answers=100,
            severe=int(self._draw.integers(0, 3)),
            late=int(self._is("late", step)),
            mismatch=int(self._is("mismatch", step)),
            lost=int(self._fault == "lost" and step == self._at),
        )
