# SPDX-License-Identifier: Apache-2.0
"""Draws accesses: contributions with what may go wrong with them, reads of every selector class,
ordinary memory, and addresses and opcodes that must be refused.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cocotbext.cxl.wire.messages import ReqOp
from models.line_packing import GATED, Mode
from models.parameters import DeviceParams
from models.regions import (
    INFO_SELECTOR,
    PLANE_COUNT,
    PLANE_SELECTOR,
    RAW_SELECTOR,
    SELECTORS,
    VIEW_SELECTORS,
    RegionConfig,
    state_lines,
    sum_selectors,
)
from verif.scenario.line_values import with_illegal_codes
from verif.scenario.live_region import HUGE, LiveRegion
from verif.scenario.scenario_data import Do, Operation
from verif.scenario.weights import Weights
from verif.sequences.line_data import line_for, random_line

PARTIAL_LIMIT = 3
"""Partial writes that race on a line leave many states: fewer of them at a time."""
_ODD_OPCODES = (*(int(op) for op in ReqOp), 5, 6, 7, 10, 15)


class AccessDraws:
    """Appends operations to `out`. `pool`: the lines of ordinary memory that are used."""

    def __init__(
        self, params: DeviceParams, weights: Weights, rng: random.Random, out: list[Operation]
    ) -> None:
        self.params = params
        self.weights = weights
        self.rng = rng
        self.out = out
        self.live: Sequence[LiveRegion] = ()
        last = params.mem_lines - 1
        self.pool = [0, 1, last, *(rng.randint(0, last) for _ in range(9))]

    # -- who ----------------------------------------------------------------------------------
    def ldid(self, live: LiveRegion, worker: int | None = None) -> int:
        """An LD-ID that may do it, if there is one."""
        config = live.config
        owner = 16 if worker is None else config.owner(worker)
        if config.bind and owner < 16 and config.ld_mask >> owner & 1:
            return owner
        return self.rng.choice([k for k in range(16) if config.ld_mask >> k & 1])

    def wrong_ldid(self, live: LiveRegion) -> int:
        """An LD-ID that may not; any where all may."""
        return self.rng.choice(
            [k for k in range(16) if not live.config.ld_mask >> k & 1] or range(16)
        )

    # -- contributions ------------------------------------------------------------------------
    def contribute(self, live: LiveRegion, worker: int, line: int) -> None:
        """A contribution, with one of the events of the knob "event"."""
        rng, config = self.rng, live.config
        data = live.contribution(worker, line, self.weights, rng)
        good = Operation(
            Do.WRITE,
            region=live.index,
            selector=worker,
            line=line,
            ldid=self.ldid(live, worker),
            data=data.hex(),
            limit=live.write_limit(line),
        )
        event = self.weights.pick(rng, "event")
        if event == "poison":
            good = replace(good, poison=True)
        elif event == "resend after poison":
            self.out.append(replace(good, poison=True))
        elif event == "illegal codes" and config.mode in GATED:
            numbers = np.random.default_rng(rng.getrandbits(64))
            good = replace(good, data=with_illegal_codes(data, config.mode, numbers).hex())
        elif event == "partial":
            good = self._partial(good)
        elif event == "wrong LD-ID":
            good = replace(good, ldid=self.wrong_ldid(live))
        elif event == "odd selector":
            good = replace(good, selector=rng.randint(min(255, config.workers), 255))
        self.out.append(good)
        if event.startswith("duplicate"):
            again = good
            if event.endswith("other data"):
                again = replace(good, data=line_for(config.mode, rng).hex())
            if rng.random() < 0.5:
                self.out.append(again)
            else:  # later, when the line may have left its slot
                live.work.insert(rng.randint(0, len(live.work)), (good.selector, line))

    def _partial(self, operation: Operation) -> Operation:
        limit = min(operation.limit or PARTIAL_LIMIT, PARTIAL_LIMIT)
        return replace(operation, be=self.byte_enables(), limit=limit)

    def byte_enables(self) -> int:
        """By the knob "byte_enables"."""
        rng = self.rng
        return {
            "none": 0,
            "one": 1 << rng.randrange(64),
            "all": (1 << 64) - 1,
            "half": ((1 << 32) - 1) << rng.choice((0, 32)),
            "mixed": rng.getrandbits(64),
        }[self.weights.pick(rng, "byte_enables")]

    # -- reads --------------------------------------------------------------------------------
    def read(self, live: LiveRegion, line: int | None = None) -> None:
        """A read of a line in use, of the selector class that the knob "read" gives."""
        rng, config = self.rng, live.config
        if line is None:
            line = rng.choice(live.lines)
            if config.lines > HUGE and rng.random() < 0.5:
                line = rng.randrange(config.lines)
        choice = self.weights.pick(rng, "read")
        ldid = self.wrong_ldid(live) if choice == "wrong LD-ID" else self.ldid(live)
        selector = self._result(config)
        if config.mode is Mode.IDENTITY:
            selector = self._identity_selector()
        elif choice == "forbidden":
            selector = self._forbidden(config)
        elif choice == "info":
            selector = INFO_SELECTOR
        elif choice == "status":
            selector, line = rng.choice(VIEW_SELECTORS), 0
        elif config.mode is Mode.FP32:
            if choice in ("raw", "plane"):
                selector = RAW_SELECTOR + rng.randrange(config.workers)
        elif choice in ("plane", "raw"):
            selector = PLANE_SELECTOR + rng.randrange(PLANE_COUNT)
        self.out.append(
            Operation(
                Do.READ,
                region=live.index,
                selector=selector,
                line=line,
                ldid=ldid,
                opcode=int(rng.choice((ReqOp.MEM_RD, ReqOp.MEM_RD, ReqOp.MEM_RD_DATA))),
                limit=live.read_limit(line),
            )
        )

    def closing_read(self, live: LiveRegion, line: int) -> None:
        """The result of a line when its contributions are done, and a second selector of it."""
        self.out.append(
            Operation(
                Do.READ,
                region=live.index,
                selector=self._result(live.config),
                line=line,
                ldid=self.ldid(live),
                limit=live.read_limit(line),
            )
        )
        if self.rng.random() < 0.5:
            self.read(live, line)

    def _result(self, config: RegionConfig) -> int:
        """A selector that reads what has been reduced: of integer codes, any line of their sums."""
        return self.rng.choice(sum_selectors(config)) if config.mode.bits else 0

    def _forbidden(self, config: RegionConfig) -> int:
        legal = {INFO_SELECTOR, *VIEW_SELECTORS, *(sum_selectors(config) or {0})}
        if config.mode is Mode.FP32:
            legal |= {*range(RAW_SELECTOR, RAW_SELECTOR + config.workers)}
        else:
            legal |= {*range(PLANE_SELECTOR, PLANE_SELECTOR + PLANE_COUNT)}
        edges = [n for n in range(SELECTORS) if n not in legal and {n - 1, n + 1} & legal]
        if self.rng.random() < 0.5:
            return self.rng.choice(edges)
        return self.rng.choice([n for n in range(SELECTORS) if n not in legal])

    # -- memory -------------------------------------------------------------------------------
    def _identity_selector(self) -> int:
        return self.rng.choice((0, 1, 127, 128, 255, self.rng.randrange(256)))

    def identity(self, live: LiveRegion) -> None:
        """A read or write of an IDENTITY region."""
        rng, config = self.rng, live.config
        if rng.random() < 0.4:
            self.read(live)
            return
        selector = self._identity_selector()
        bound = config.bind and rng.random() < 0.8
        self._memory_write(
            Operation(
                Do.WRITE,
                region=live.index,
                selector=rng.randrange(16 << config.bind_shift) if bound else selector,
                line=rng.choice(live.lines),
                ldid=self.ldid(live),
                data=random_line(rng).hex(),
                limit=live.limit or PARTIAL_LIMIT,
            )
        )

    def _memory_write(self, operation: Operation) -> None:
        event = self.weights.pick(self.rng, "event")
        if event in ("poison", "resend after poison"):
            operation = replace(operation, poison=True)
        if event == "partial" or self.rng.random() < 0.2:
            operation = self._partial(operation)
        self.out.append(operation)

    def plain(self, write: bool) -> None:
        """An access to ordinary memory, or to what was ordinary memory once."""
        rng = self.rng
        line, ldid = rng.choice(self.pool), rng.randrange(16)
        # What races on a line that a region may claim, and leave again, cannot be judged later.
        limit = 1 if line in self.pool[:3] else PARTIAL_LIMIT
        if write:
            data = random_line(rng).hex()
            self._memory_write(
                Operation(Do.WRITE, addr=line << 6, ldid=ldid, data=data, limit=limit)
            )
        else:
            self.out.append(Operation(Do.READ, addr=line << 6, ldid=ldid, limit=limit))

    # -- what must be refused -----------------------------------------------------------------
    def odd_opcode(self, live: LiveRegion | None) -> None:
        """A request whose opcode is no read."""
        rng = self.rng
        where = Operation(Do.REQUEST, addr=rng.choice(self.pool) << 6)
        if live is not None and rng.random() < 0.5:
            where = Operation(Do.REQUEST, region=live.index, line=rng.choice(live.lines))
        self.out.append(
            replace(where, opcode=rng.choice(_ODD_OPCODES), ldid=rng.randrange(16), limit=1)
        )

    def odd_address(self, live: LiveRegion | None) -> None:
        """An address beside a window or a state area, with one bit changed, or outside of all."""
        rng = self.rng
        edges = [self.params.mem_lines, self.params.mem_lines - 1]
        if live is not None:
            config = live.config
            size = state_lines(config, self.params.cnt_w)
            state = config.state_line
            edges += [state, state + size - 1, state + size, max(0, state - 1)]
            edges += [config.base_line - 1, config.base_line + config.window_lines]
            edges += [config.base_line ^ 1 << rng.randrange(46) for _ in range(6)]
        addr = (rng.choice(edges) << 6) % (1 << 52)
        ldid = rng.randrange(16)
        if rng.random() < 0.5:
            self.out.append(Operation(Do.READ, addr=addr, ldid=ldid, limit=1))
        else:
            data = random_line(rng).hex()
            self.out.append(Operation(Do.WRITE, addr=addr, ldid=ldid, data=data, limit=1))
