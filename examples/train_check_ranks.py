# SPDX-License-Identifier: Apache-2.0
"""`python -m examples.train_check_ranks FOLDER`: the trainings that `nf train check` compares.

One process imports torch and forks the workers, which run all trainings one after the other: real
gloo processes that are started once. FOLDER/plan.json says what to train; each training adds a line
to FOLDER/results.jsonl and writes its monitor log to a separate folder.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from examples.train_check_variants import late_rank, profile_of, spike
from examples.workloads import WORKLOADS, Data, Workload, fork_ranks
from neuron_fabric import attach
from neuron_fabric.calibration.calibrating import Asked, Trained, profile_by_rule
from neuron_fabric.calibration.calibration_job import CALIBRATE, Job, write_job
from neuron_fabric.calibration.shadow_run import weights_of
from neuron_fabric.calibration.verification import SEEDS, Bar, Verification, verify
from neuron_fabric.codec import Route
from neuron_fabric.data import read_object
from neuron_fabric.profile import Profile, sketch, traced_head, write_profile
from neuron_fabric.profile.profile_types import Rule
from neuron_fabric.profile.samples import samples_path, write_samples
from scripts.cli.train_check_goals import ADAPTIVE, AUTO, FP32, GUIDED, LATE

TAIL = 0.8  # of the steps: the rest is the steady state
CLOSE_AFTER_S = 0.05
LATE_S = 3 * CLOSE_AFTER_S
"""Time by which a rank is late, longer than a round of the others takes on two cores."""


def main(folder: str) -> None:
    """Fork the ranks of the check in `folder`, and wait for them."""
    plan = read_object(Path(folder, "plan.json"))
    name = "pairs100" if plan["check"] == "spike" else plan["check"]
    work = WORKLOADS[name]
    # SCHED_BATCH, which the ranks inherit: no worker preempts another one that computes. Workers
    # outnumber the cores. Otherwise a worker that is woken by a message takes the core, and the
    # other one is woken again for each of the ring's messages: 370 times a step of `topics` instead
    # of 45. Without permission, or on a system other than Linux, nothing changes.
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    fork_ranks(lambda rank: Check(work, rank, Path(folder), plan).run(), work.workers, folder)


class Check:
    """All trainings of a check, as one rank runs them."""

    def __init__(self, work: Workload, rank: int, folder: Path, plan: dict[str, Any]) -> None:
        self.work, self.rank, self.folder, self.plan = work, rank, folder, plan
        self.data: Data = work.data()
        self.steps = int(plan["steps"])
        self.spiked = plan["check"] == "spike"

    def run(self) -> int:
        """Calibrate a profile if one is needed, then train every variant with every seed; return 0.

        With a reducer server, every variant except FP32 is trained with the torch reducer too, so
        that both can be compared.
        """
        seed = int(self.plan["calibrated_with"])
        guided = self.calibrated(seed) if GUIDED in self.plan["variants"] else None
        for seed in self.plan["seeds"]:
            for variant in self.plan["variants"]:
                closing = self.plan["closing"] if variant == LATE else ""
                self.train(variant, seed, guided, closing or self.plan["reducer"])
                if self.plan["reducer"] != "torch" and variant != FP32:  # what both must agree on
                    self.train(variant, seed, guided, "torch")
        return 0

    def calibrated(self, seed: int) -> Profile:
        """Calibrate with `seed`; return the profile, and write it and the line of the calibration.

        With `verify` in the plan it is verified by further trainings, as far as they allow.
        Otherwise the profile is returned as verified, since a short training cannot verify it.
        """
        folder = self.folder / "calibration"
        folder.mkdir(exist_ok=True)
        # Verification may give up votes for codes of 8 bits; no check chooses those of 4 bits.
        routes = (*map(str, Rule().routes), str(Route.G_INT8))
        write_job(folder, Job(every=int(self.plan["every"]), routes=routes))
        dist.barrier()
        start = time.monotonic()
        value, *_ = self._train(seed, None, {"env": {CALIBRATE: str(folder)}}, spiked=False)
        asked = Asked(self.folder / "guided.toml", self.work.workers, int(self.plan["every"]), seed)
        profile, samples = profile_by_rule(asked, Trained(folder, None, None))
        table: dict[str, Sequence[float]] = {}
        if self.rank == 0:
            write_profile(profile, asked.out)
            write_samples(samples, samples_path(asked.out))
        if self.plan["verify"]:
            found = self._verified(profile, asked, value)
            profile, table = found.profile, dict(found.table)
        if self.rank == 0:
            regions = [
                {
                    "name": one.name,
                    "kind": one.kind.value,
                    "elements": one.elements,
                    "route": one.phases["steady"].route.value,
                    "decode": one.phases["steady"].decode,
                    "why": one.phases["steady"].why,
                }
                for one in profile.regions
            ]
            seconds = time.monotonic() - start
            verified = profile.verified if self.plan["verify"] else None
            line = {"seed": seed, "seconds": seconds, "regions": regions, "verified": verified}
            self._put({"kind": "calibration", **line, "table": table})
        dist.barrier()
        return profile if self.plan["verify"] else replace(profile, verified=True)

    def _verified(self, profile: Profile, asked: Asked, first: float) -> Verification:
        """Verify a calibrated profile as `nf train calibrate` does.

        Args:
            profile: Calibrated profile.
            asked: Settings of the calibration; trainings use SEEDS seeds from its seed on.
            first: Metric of the training that was sampled, which used FP32 and the first seed.
        """
        seeds = [asked.seed + n for n in range(SEEDS)]
        full = [first, *(self._reached(self._profile(FP32, seed), seed) for seed in seeds[1:])]
        # By the means, as all goals of the checks are.
        bar = Bar(self.plan["within"], "higher" if self.work.higher else "lower", means=True)

        def again(by: Profile) -> list[float]:
            trial = replace(by, verified=True)  # else every region would be compared with FP32
            return [self._reached(trial, seed) for seed in seeds]

        def keep(one: Profile) -> None:
            if self.rank == 0:
                write_profile(one, asked.out)

        def tell(text: str) -> None:
            if self.rank == 0:
                self._put({"kind": "said", "text": text})

        found = verify(profile, self.work.metric, full, again, bar, keep, tell)
        for line in found.paired.lines(found.fp32):
            tell(line)
        return found

    def _reached(self, profile: Profile, seed: int) -> float:
        """Train with a profile and the torch reducer; return the metric."""
        value, *_ = self._train(seed, profile, {"reducer": "torch", "env": {}}, spiked=False)
        return value

    def _profile(self, variant: str, seed: int, guided: Profile | None = None) -> Profile:
        torch.manual_seed(seed)
        net = self.work.net()
        head = traced_head(net, self.data.batch(seed, 0, 0, 1, 1)[0])
        return profile_of(variant, sketch(net, head), guided)

    def train(self, variant: str, seed: int, guided: Profile | None, reducer: str) -> None:
        """Run one training, and append its line to results.jsonl (rank 0)."""
        drafted = variant in (AUTO, ADAPTIVE)
        profile = variant if drafted else self._profile(variant, seed, guided)
        words_of = variant.replace(",", "").split()
        log = self.folder / "-".join([*words_of, str(seed), reducer.partition(":")[0]])
        words: dict[str, Any] = {"reducer": reducer, "env": {}, "monitor": log}
        if variant == LATE:
            words |= {"fp32": "ordered", "close_after": CLOSE_AFTER_S}
        start = time.monotonic()
        value, rt, weights, tail = self._train(seed, profile, words, spiked=self.spiked)
        every: list[Any] = [None] * self.work.workers
        dist.all_gather_object(every, weights)
        if self.rank != 0:
            return
        off: Any = () if isinstance(profile, str) else profile.monitor.get("off", ())
        decisions = [
            [one.step, one.region, one.source, one.target, one.signal]
            for one in rt.controls.decisions
        ]
        self._put(
            {
                "kind": "training",
                "variant": variant,
                "seed": seed,
                "reducer": reducer,
                "value": value,
                "weights": weights,
                "ranks_differ": len(set(every)) - 1,
                "seconds": time.monotonic() - start,
                "steps": self.steps,
                "sent": dict(rt.sent),
                "received": dict(rt.received),
                "tail": tail,
                "decisions": decisions,
                "state": str(rt.controls.state.mode),
                "closed": rt.reducer_counters.closed,
                "log": log.name if variant != FP32 else None,
                "signals_off": sorted(map(str, off)),
            }
        )

    def _train(
        self, seed: int, profile: Profile | str | None, words: dict[str, Any], spiked: bool
    ) -> tuple[float, Any, str, dict[str, Any]]:
        """Train the workload once.

        Returns:
            The metric (measured by rank 0), the training session, a digest of this rank's weights,
            and the bytes sent and received by route in the last 20 % of the steps.
        """
        torch.manual_seed(seed)
        net = self.work.net()
        model = DistributedDataParallel(net)
        optimizer = self.work.optimizer(model.parameters())
        rates = [group["lr"] for group in optimizer.param_groups]
        rt: Any = attach(
            model, profile, steps=self.steps, optimizer=optimizer, scaler=False, **words
        )
        first = int(TAIL * self.steps)
        before: Sequence[dict[str, int]] = ({}, {})
        for step in range(self.steps):
            factor = self.work.rate(step, self.steps) * (spike(step, self.steps) if spiked else 1)
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            if step == first:
                rt.state_dict()  # waits until all has been reduced
                before = _bytes(rt)
            x, y = self.data.batch(seed, step, self.rank, self.work.workers, self.work.batch)
            loss = self.data.loss(model, x, y)
            optimizer.zero_grad()
            if "close_after" in words and self.rank == late_rank(seed, step, self.work.workers):
                time.sleep(LATE_S)
            loss.backward()
            rt.observe(loss)
            optimizer.step()
        rt.state_dict()
        said = [self.data.judge(net) if self.rank == 0 else 0.0]
        dist.broadcast_object_list(said, 0)
        after = _bytes(rt)
        both = [
            {k: n - b.get(k, 0) for k, n in a.items()} for a, b in zip(after, before, strict=True)
        ]
        tail = {"steps": self.steps - first, "sent": both[0], "received": both[1]}
        rt.close()
        return said[0], rt, weights_of(net), tail

    def _put(self, line: dict[str, Any]) -> None:
        with (self.folder / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _bytes(rt: Any) -> Sequence[dict[str, int]]:
    return dict(rt.sent), dict(rt.received)


if __name__ == "__main__":
    main(sys.argv[1])
