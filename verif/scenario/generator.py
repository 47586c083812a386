# SPDX-License-Identifier: Apache-2.0
"""Draws a whole scenario: regions, then a stream of operations, by the weights of the knobs."""

from __future__ import annotations

import random
from dataclasses import replace

from models.line_packing import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig
from verif.scenario.access_draws import AccessDraws
from verif.scenario.live_region import LiveRegion
from verif.scenario.region_draws import RegionDraws
from verif.scenario.register_draws import register_operations
from verif.scenario.scenario_data import Do, Operation, Region, Scenario
from verif.scenario.surroundings import draw_faults, draw_link, draw_memory
from verif.scenario.weights import Weights

LONG = 1 << 8
"""Lines of a region whose area is given up at the end: to initialise more takes too long."""
OPERATIONS = 220
"""Operations of a scenario at scale 1."""


def generate(
    seed: int, hardware: DeviceParams, weights: Weights, operations: int = OPERATIONS
) -> Scenario:
    """The scenario of a seed: the same arguments give the same scenario."""
    return _Generator(seed, hardware, weights, operations).scenario()


class _Generator:
    def __init__(self, seed: int, hardware: DeviceParams, weights: Weights, count: int) -> None:
        self.seed = seed
        self.hw = hardware
        self.weights = weights
        self.count = count
        self.rng = rng = random.Random(f"scenario {seed}")
        self.draws = RegionDraws(hardware, weights, rng)
        self.regions: list[Region] = []
        self.live: list[LiveRegion] = []
        self.out: list[Operation] = []
        self.access = AccessDraws(self.hw, weights, rng, self.out)
        self.epoch = rng.getrandbits(32)
        self.turn: list[LiveRegion] = []
        self.faulty = 0
        """Operations that are left of a phase with errors of the memory."""
        self.by_rate = False

    def scenario(self) -> Scenario:
        rng, weights = self.rng, self.weights
        memory, link = draw_memory(weights, rng), draw_link(weights, rng)
        background = weights.pick(rng, "background")
        numbers = rng.sample(range(self.hw.regions), self._region_count())
        for number in numbers:
            self.first_commit(number)
        self.access.live = self.live
        while len(self.out) < self.count:
            self.step()
        self.end()
        return Scenario(
            seed=self.seed,
            hardware=self.hw,
            regions=tuple(self.regions),
            operations=tuple(self.out),
            memory=memory,
            link=link,
            background=background,
        )

    def _region_count(self) -> int:
        count = {"1": 1, "2": 2, "3..4": self.rng.randint(3, 4), "all": self.hw.regions}
        return min(self.hw.regions, count[self.weights.pick(self.rng, "regions")])

    # -- commits ------------------------------------------------------------------------------
    def others(self, number: int) -> list[RegionConfig]:
        """Descriptors that are committed in other regions."""
        return [live.config for live in self.live if live.number != number]

    def add(self, number: int, config: RegionConfig) -> int:
        """Index of a descriptor in the scenario."""
        self.regions.append(Region(number, config))
        return len(self.regions) - 1

    def next_epoch(self) -> int:
        self.epoch = (self.epoch + self.rng.choice((0, 1, 1, 2))) & 0xFFFF_FFFF
        return self.epoch

    def first_commit(self, number: int) -> None:
        config = self.draws.region(self.others(number))
        if config is None:
            return
        overlap = self.weights.pick(self.rng, "overlap")
        live = LiveRegion(self.add(number, config), number, config, overlap)
        live.begin(self.weights, self.rng, self.hw.slots)
        self.live.append(live)
        self.out.append(Operation(Do.COMMIT, region=live.index, value=self.next_epoch(), idle=True))

    def commit(self, live: LiveRegion) -> None:
        """A commit of a region in use, by the knob "commit"."""
        rng = self.rng
        what = self.weights.pick(rng, "commit")
        when = self.weights.pick(rng, "commit_when")
        if live.overlap != "loaded":  # too many orders of what is in flight
            when = "idle"
        others = self.others(live.number)
        new = live.config
        if what == "refused":
            bad = self.draws.refused(live.config, others)
            if bad is not None:
                index = self.add(live.number, bad)
                self._write_commit(index, "idle")
            return
        if what == "options" or (what != "same" and live.may_move):
            new = self.draws.changed(live.config, what, others) or live.config
        if new != live.config:
            live.config = new
            live.index = self.add(live.number, new)
            live.overlap = self.weights.pick(rng, "overlap")
        self._write_commit(live.index, when)
        live.begin(self.weights, rng, self.hw.slots)

    def _write_commit(self, index: int, when: str) -> None:
        idle, background = when == "idle" or self.faulty > 0, when == "in background"
        value = self.next_epoch()
        self.out.append(
            Operation(Do.COMMIT, region=index, value=value, idle=idle, background=background)
        )

    def close(self, live: LiveRegion) -> None:
        """The end of a region's round; what is left of its work comes late."""
        self.out.append(
            Operation(
                Do.SET,
                name=f"REGION[{live.number}].CTRL",
                value=1,
                idle=live.overlap != "loaded",  # else too many orders of what is in flight
                background=live.overlap == "loaded" and self.rng.random() < 0.5,
            )
        )

    # -- stream -------------------------------------------------------------------------------
    def step(self) -> None:
        """The next operation, or a few that belong together."""
        rng, weights, out = self.rng, self.weights, self.out
        before = len(out)
        action = weights.pick(rng, "action")
        live = self._next_region()
        if action == "contribute" and live is not None:
            if not self._contribute(live):
                self.commit(live)
        elif action == "read" and live is not None:
            self.access.read(live)
        elif action == "commit" and live is not None:
            self.commit(live)
        elif action == "close" and live is not None:
            self.close(live)
        elif action in ("plain write", "plain read"):
            self.access.plain(write=action == "plain write")
        elif action == "odd opcode":
            self.access.odd_opcode(live)
        elif action == "odd address":
            self.access.odd_address(live)
        elif action == "register":
            out.extend(register_operations(weights, rng, self.hw, self.live))
        elif action == "wait":
            out.append(Operation(Do.WAIT, value=rng.choice((1, 5, 20, 100))))
        elif action == "drain":
            out.append(Operation(Do.DRAIN, idle=True))
        elif action == "memory":
            out.append(Operation(Do.MEMORY, memory=draw_memory(weights, rng)))
        elif action == "faults" and not self.faulty:
            self._faults()
        if self.faulty:
            self._careful(before)

    def _next_region(self) -> LiveRegion | None:
        """The region whose turn it is: in bursts."""
        if not self.turn and self.live:
            length = {"1": 1, "2..4": self.rng.randint(2, 4), "5..16": self.rng.randint(5, 16)}
            count = length[self.weights.pick(self.rng, "burst")]
            self.turn = [self.rng.choice(self.live)] * count
        return self.turn.pop() if self.turn else None

    def _contribute(self, live: LiveRegion) -> bool:
        """A contribution, a closing read; False when the epoch's work is done."""
        if live.config.mode is Mode.IDENTITY:
            self.access.identity(live)
            return self.rng.random() < 0.97
        if live.work:
            self.access.contribute(live, *live.work.popleft())
            return True
        if live.closing:
            self.access.closing_read(live, live.closing.popleft())
            return True
        return False

    # -- errors of the memory -----------------------------------------------------------------
    def _faults(self) -> None:
        faults = draw_faults(self.weights, self.rng, self.hw, self.live, self.access.pool)
        if faults is not None:
            self.out.append(faults)
            self.faulty = self.rng.randint(10, 30)
            self.by_rate = faults.read_error_rate + faults.write_error_rate > 0

    def _careful(self, before: int) -> None:
        """While memory fails, one request at a time: which of two racing ones met the error is
        micro-architecture. By rate it is one on each line."""
        for index in range(before, len(self.out)):
            one = self.out[index]
            if one.do is not Do.FAULTS:
                alone = not self.by_rate or one.do not in (Do.WRITE, Do.READ)
                self.out[index] = replace(one, idle=alone, limit=1, background=False)
        self.faulty -= 1
        if not self.faulty:
            self.out.append(Operation(Do.FAULTS, idle=True))
            for live in self.live:  # what was lost ends with the epoch: requests may race again
                self._write_commit(live.index, "idle")
                live.begin(self.weights, self.rng, self.hw.slots)

    def end(self) -> None:
        """Everything is read once more; areas that take long to initialise are given up."""
        self.out.append(Operation(Do.FAULTS, idle=True))
        before = len(self.out)
        for live in self.live:
            if live.config.mode is not Mode.IDENTITY:
                for line in live.lines[:8]:
                    self.access.closing_read(live, line)
        if self.faulty:
            self.out[before:] = [replace(one, limit=1) for one in self.out[before:]]
        for live in self.live:
            if live.config.lines > LONG and live.config.mode is not Mode.IDENTITY:
                small = replace(live.config, mode=Mode.G_BINARY, lines_log2=0, workers=1)
                index = self.add(live.number, small)
                self.out.append(
                    Operation(Do.COMMIT, region=index, value=self.next_epoch(), idle=True)
                )
