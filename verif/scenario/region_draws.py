# SPDX-License-Identifier: Apache-2.0
"""Draws region descriptors: legal ones, changed ones on the same area, and ones to be refused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from models.commit_check import check_commit
from models.line_packing import Mode
from models.parameters import LINE_ADDRESS_BITS, DeviceParams
from models.regions import (
    MAX_WORKERS,
    SELECTOR_BITS,
    CommitCode,
    RegionConfig,
    record_lines,
    state_lines,
)
from verif.scenario.weights import Weights

TRIES = 40
ADDRESS_LINES = 1 << LINE_ADDRESS_BITS
_LINES = {
    "1": (0, 0),
    "2..8": (1, 3),
    "16..64": (4, 6),
    "2^7..2^10": (7, 10),
    "2^11..2^13": (11, 13),
    "more": (14, 30),
}


class RegionDraws:
    """Descriptors for a device; `others` are the ones that are committed in other regions."""

    def __init__(self, params: DeviceParams, weights: Weights, rng: random.Random) -> None:
        self.params = params
        self.weights = weights
        self.rng = rng

    # -- whole descriptors --------------------------------------------------------------------
    def region(self, others: Sequence[RegionConfig]) -> RegionConfig | None:
        """A legal descriptor; None when the memory is used up."""
        for attempt in range(TRIES):
            mode = self.mode()
            workers = self.workers()
            log2 = self.lines_log2() if attempt < TRIES // 2 else self.rng.randrange(3)
            draft = RegionConfig(0, 0, log2, workers, mode, **self.options(workers))
            placed = self.place(draft, others)
            if placed is not None:
                return placed
        return None

    def place(self, draft: RegionConfig, others: Sequence[RegionConfig]) -> RegionConfig | None:
        """The descriptor at a legal place of the window and of the state area."""
        for _ in range(TRIES):
            base = self._window(1 << (draft.lines_log2 + SELECTOR_BITS), others) % ADDRESS_LINES
            state = self._state(draft, others)
            if state is None:
                return None
            placed = replace(draft, base=base << 6, state_base=state << 6)
            if self.legal(placed, others):
                return placed
        return None

    def legal(self, config: RegionConfig, others: Sequence[RegionConfig]) -> bool:
        """True if a commit takes it."""
        return check_commit(self.params, config, others) is CommitCode.OK

    # -- fields -------------------------------------------------------------------------------
    def mode(self) -> Mode:
        """The mode that is drawn; in a device with G_TERN5, half of the ternary regions have it."""
        mode = Mode[self.weights.pick(self.rng, "mode")]
        if mode is Mode.G_TERNARY and self.params.tern5 and self.rng.random() < 0.5:
            return Mode.G_TERN5
        return mode

    def workers(self) -> int:
        """W by its class."""
        rng, choice = self.rng, self.weights.pick(self.rng, "workers")
        near = {"2^k - 1": -1, "2^k": 0, "2^k + 1": 1}.get(choice)
        if near is not None:
            return min(MAX_WORKERS, max(1, (1 << rng.randint(1, 6)) + near))
        if choice == "4..16":
            return rng.randint(4, 16)
        return rng.randint(1, MAX_WORKERS) if choice == "any" else int(choice)

    def lines_log2(self) -> int:
        """LINES_LOG2 by its class, never more than could fit."""
        low, high = _LINES[self.weights.pick(self.rng, "lines")]
        most = self.params.mem_lines_log2 - 1
        return self.rng.randint(min(low, most), min(high, most))

    def options(self, workers: int) -> dict[str, Any]:
        """Threshold, tie, strict, bind with its shift, sign, kept sums, and LD_MASK."""
        rng, pick = self.rng, self.weights.pick
        threshold = {
            "1": 1,
            "inside": rng.randint(1, workers),
            "W": workers,
            "above W": rng.randint(workers + 1, 254),
            "255": 255,
        }[pick(rng, "threshold")]
        mask = {
            "all": 0xFFFF,
            "some": rng.randrange(1, 0x10000),
            "one": 1 << rng.randrange(16),
        }[pick(rng, "ld_mask")]
        return {
            "threshold": threshold,
            "tie_minus": pick(rng, "tie") == "MINUS",
            "strict": self.weights.may(rng, "strict"),
            "bind": self.weights.may(rng, "bind"),
            "bind_shift": int(pick(rng, "bind_shift")),
            "keep_sum": self.weights.may(rng, "keep_sum"),
            "signed": rng.random() < 0.6,
            "ld_mask": mask,
        }

    # -- places -------------------------------------------------------------------------------
    def _window(self, size: int, others: Sequence[RegionConfig]) -> int:
        """First line of a window; the caller looks whether it is free."""
        choice, memory = self.weights.pick(self.rng, "window"), self.params.mem_lines
        if choice == "memory end":
            return -(-memory // size) * size
        if choice == "address top":
            return ADDRESS_LINES - size
        if choice == "beside another" and others:
            other = self.rng.choice(others)
            behind = other.base_line + other.window_lines
            return self.rng.choice((-(-behind // size) * size, max(0, other.base_line - size)))
        bits = self.rng.randint(self.params.mem_lines_log2 + 1, LINE_ADDRESS_BITS)
        return self.rng.randrange(1 << bits) // size * size

    def _state(self, draft: RegionConfig, others: Sequence[RegionConfig]) -> int | None:
        """First line of a state area; None when it is larger than the memory."""
        size = state_lines(draft, self.params.cnt_w)
        align = record_lines(draft.most, self.params.cnt_w) if draft.mode.low_bit else 1
        last = self.params.mem_lines - size
        if last < 0:
            return None
        choice = self.weights.pick(self.rng, "state")
        start = self.rng.randint(0, last)
        if choice in ("memory start", "memory end"):
            start = 0 if choice == "memory start" else last
        elif choice == "beside another" and others:
            other = self.rng.choice(others)
            behind = other.state_line + state_lines(other, self.params.cnt_w)
            start = self.rng.choice((-(-behind // align) * align, other.state_line - size))
        return min(max(start, 0), last) // align * align

    # -- changes ------------------------------------------------------------------------------
    def changed(
        self, old: RegionConfig, what: str, others: Sequence[RegionConfig]
    ) -> RegionConfig | None:
        """A legal descriptor that differs from `old` in `what` (knob "commit"), on the same area
        where that is legal."""
        for _ in range(TRIES):
            new = old
            if what == "options":
                new = replace(old, **self.options(old.workers))
            elif what == "workers":
                new = replace(old, workers=self.workers())
            elif what == "mode":
                new = replace(old, mode=self.mode())
            elif what == "size":
                new = replace(old, lines_log2=self.lines_log2())
            if what == "moved":
                return self.place(new, others)
            align = record_lines(new.most, self.params.cnt_w) if new.mode.low_bit else 1
            new = replace(
                new,
                base=new.base_line // new.window_lines * new.window_lines << 6,
                state_base=new.state_line // align * align << 6,
            )
            if self.legal(new, others):
                return new
        return None

    def refused(self, old: RegionConfig, others: Sequence[RegionConfig]) -> RegionConfig | None:
        """A descriptor like `old` with one or two faults, which a commit must refuse."""
        for _ in range(TRIES):
            bad = old
            for _fault in range(self.rng.choice((1, 1, 2))):
                bad = self._spoilt(bad, others)
            if not self.legal(bad, others):
                return bad
        return None

    def _spoilt(self, config: RegionConfig, others: Sequence[RegionConfig]) -> RegionConfig:
        rng, top = self.rng, (1 << 52) - 64
        memory = self.params.mem_lines << 6
        faults: list[dict[str, Any]] = [
            {"workers": rng.choice((0, 65, rng.randint(66, 255)))},
            {"threshold": 0},
            {"lines_log2": rng.choice((39, 63, rng.randint(40, 62)))},
            {"base": config.base ^ 64 << rng.randrange(config.lines_log2 % 38 + SELECTOR_BITS)},
            {"base": rng.randrange(memory) & ~63},
            {"state_base": config.state_base ^ 64 << rng.randrange(3)},
            {"state_base": memory - 64 * rng.choice((0, 1, 2)) & top},
            {"state_base": rng.randrange(memory, top) & top},
        ]
        for other in others[:1]:
            faults += [{"base": other.base}, {"state_base": other.state_base}]
        return replace(config, **rng.choice(faults))
