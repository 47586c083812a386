# SPDX-License-Identifier: Apache-2.0
"""Drawn traffic for the checkers: requests, register accesses, memory beats, flits and resets.

A device model answers the requests of `DrawnTraffic`. Values of registers are those of the model or
near those that are expected; nobody answers for memory and link. So some runs have findings: they
are compared like all that is derived.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind
from cocotbext.cxl.wire.control import RetryAck, RetryReq
from cocotbext.cxl.wire.flits import Direction
from cocotbext.cxl.wire.messages import (
    BE_ALL,
    S2MDRS,
    DevLoad,
    M2SMessage,
    M2SReq,
    M2SRwD,
    ReqOp,
    RwdOp,
)
from models.access_decode import Kind
from models.control_window import REGION_LINE, pack_line
from models.info_status_lines import pack_words, unpack_words
from models.modes import Mode
from models.regions import RegionConfig, records
from models.register_types import WORD_MASK, Register
from verif.coverage.device_coverage import NfCoverage
from verif.mem.memory_config import MemBeat
from verif.recorded.watch_bench import Summary, Watch
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.error_capture import error_of, shown
from verif.scoreboard.lenient import LenientScoreboard
from verif.scoreboard.link_state import LINK_COUNTERS, LinkState
from verif.scoreboard.operations import Op
from verif.scoreboard.predictor_bench import PredictorBench
from verif.scoreboard.ranges import Span
from verif.scoreboard.register_predictor import raised
from verif.scoreboard.scoreboard import Scoreboard
from verif.scoreboard.test_random_traffic import MODES, Traffic

PLAIN, STEPS, LOOK = 4, 300, 6
"""Seeds without registers, memory and link; steps of a run; steps between two looks."""
WINDOW = 1 << 50
"""Byte address of the control window."""
_SHOWN = ("ERR_INFO", "ERR_ADDR_LO", "ERR_ADDR_HI", "ERR_TAG")


class Draw(NamedTuple):
    """Kind of a drawn run.

    Attributes:
        flights: Requests and commits that may be in flight at once.
        wrong: Share of register reads with a wrong bit.
        errors: Share of memory beats with an error or poison.
        faulty: Whether the link has faults; None without a link.
        resets: Share of steps with a reset.
        lenient: Whether the scoreboard accepts what is marked as untrusted.
        modes: Mode of each region.
        writes: Registers that are written; all that have an effect by default.
        options: Parameters of the device.
    """

    flights: int = 5
    wrong: float = 0.1
    errors: float = 0.0
    faulty: bool | None = False
    resets: float = 0.0
    lenient: bool = False
    modes: tuple[Mode, ...] = MODES
    writes: tuple[str, ...] = ()
    options: dict[str, int] = {}  # noqa: RUF012 - never changed


_OTHER_MODES = (Mode.FP32, Mode.G_TERN5, Mode.G_TERNARY)
_COUNTING = (Mode.G_BINARY, Mode.G_TERNARY)
KINDS = (
    Draw(wrong=0.0),
    Draw(flights=9),
    Draw(flights=3, faulty=True),
    Draw(flights=7, errors=0.2),
    Draw(flights=3, resets=0.02, faulty=None),
    Draw(flights=5, lenient=True, errors=0.05, options={"ecc": 2}),
    Draw(flights=2, wrong=0.3),
    Draw(
        flights=4, errors=0.05, modes=_OTHER_MODES, options={"regions": 3, "tern5": 1, "cnt_w": 2}
    ),
    Draw(flights=6, lenient=True, options={"ecc": 0, "gen_w": 4}, errors=0.02),
    Draw(flights=4, faulty=True, options={"ecc": 2, "slots": 2}, resets=0.01),
    Draw(flights=4, modes=_COUNTING, writes=("CAP_WINDOW", "CAP_THRESHOLD", "FALLBACK")),
    Draw(flights=3, wrong=0.3, writes=("ERR_INFO", "IRQ_ENABLE", "IRQ_STATUS"), resets=0.02),
    Draw(flights=8, modes=_COUNTING, writes=("CTRL_WINDOW_LO", "CTRL_LD_MASK", "OWNER_LD")),
    Draw(flights=4, writes=("DEVLOAD_THRESHOLD", "CTRL")),
)
"""Kinds of drawn runs with registers, memory and link; seeds take turns."""
DRAWN = PLAIN + 2 * len(KINDS)
"""Number of seeds."""


def drawn(seed: int) -> Summary:
    """Return the summary of drawn traffic that races on few lines.

    For odd seeds there are more races, and the search for an order gives up early.
    """
    if seed >= PLAIN:
        run = DrawnTraffic(seed, KINDS[(seed - PLAIN) % len(KINDS)])
        return run.summary()
    traffic = Traffic(seed, flights=7 if seed & 1 else 5)
    if seed & 1:
        traffic.bench.scoreboard.judge.budget = 12
    watch, found = watched(traffic)
    for number in range(STEPS):
        traffic.step()
        if not traffic.rng.randrange(40):
            traffic.quiet()
        if number % LOOK == 0:
            watch.look()
    traffic.quiet()
    traffic.bench.scoreboard.finish()
    return watch.summary(found)


def watched(traffic: Traffic) -> tuple[Watch, list[str]]:
    """Return the watch of drawn traffic, and the list of its findings, which do not end it."""
    board, found = traffic.bench.scoreboard, list[str]()
    assert isinstance(board.observer, NfCoverage)
    board.on_error = found.append
    return Watch(board, traffic.bus.predictor, board.observer), found


class DrawnTraffic(Traffic):
    """Drawn traffic of which registers, control window, memory port and link are a part.

    Args:
        seed: Seed of everything that is drawn.
        kind: What is drawn.
    """

    def __init__(self, seed: int, kind: Draw) -> None:
        board = LenientScoreboard if kind.lenient else Scoreboard
        super().__init__(seed, None, kind.flights, kind.modes, board, **kind.options)
        self.kind, self.board, self.device = kind, self.bench.scoreboard, self.bench.device
        self.link = None if kind.faulty is None else DrawnLink(self.rng, self.board, kind.faulty)
        state = self.link.state if self.link is not None else None
        self.bus = PredictorBench(self.board, self.device.params, state)
        self.predictor = self.bus.predictor
        self.reading: list[AxiLiteAccess] = []
        self.writing: tuple[AxiLiteAccess, Callable[[], object]] | None = None
        """Write on the register bus, and what the device does with it."""
        self.refused: list[Op] = []
        self.misses = 0
        every = self.predictor.by_name.values()
        own = [one for one in every if one.name not in self.board.counters]
        self.choices = [*every, *own, *own]
        for region, config in enumerate(self.configs):
            for leaf, value in config.register_values().items():
                self.bus.write(f"REGION[{region}].{leaf}", value)
        if kind.flights != 5:
            self.bus.write("CTRL_WINDOW_HI", WINDOW >> 32)
            self.bus.write("CTRL_WINDOW_LO", 0)
            self.bus.write("CTRL_LD_MASK", 3)
            self.device.control = self.board.model.control
        self.watch, self.found = watched(self)

    def summary(self) -> Summary:
        """Return the summary of a run."""
        for number in range(STEPS):
            self.step()
            self.registers_step()
            if not self.rng.randrange(3):
                self.beat()
            if self.link is not None:
                self.link.step()
            if not self.rng.randrange(40):
                self.quiet()
            if self.rng.random() < self.kind.resets:
                self.reset()
            if number % LOOK == 0:
                self.watch.look()
        self.quiet()
        self.board.finish()
        self.predictor.finish()
        return self.watch.summary(self.found)

    def reset(self) -> None:
        """Reset the device; what is in flight is answered before, but for reads of registers."""
        self.end_write()
        while self.flying:
            self.answer(self.flying[0])
        while self.pending:
            self.settle(min(self.pending))
        self.predictor.reset()
        self.reading, self.writing = [], None
        self.device.clear_counters()
        self.device.control = self.board.model.control
        if self.link is not None:
            self.link.counts.clear()

    def quiet(self) -> None:
        """Answer everything, then read all registers."""
        self.end_write()
        super().quiet()
        for access in self.reading:
            self.end_read(access)
        self.reading.clear()
        for register in self.predictor.by_name.values():
            access = AxiLiteAccess(False, register.address)
            self.predictor.begin(access)
            self.end_read(access)

    # -- requests -----------------------------------------------------------------------------
    def message(self, region: int) -> M2SMessage:
        """Draw a request, some of them to the control window."""
        rng, control = self.rng, self.board.model.control
        if not control.base or rng.random() < 0.7:
            msg = super().message(region)
        elif rng.random() < 0.4:
            line = rng.choice((0, 1, 4, REGION_LINE + region, 63))
            msg = M2SReq(ReqOp.MEM_RD, 0, control.base + line * 64, rng.randrange(5))
        else:
            msg = self.window_write(region)
        if rng.random() < 0.05:  # what a round has left in memory
            config = rng.choice(self.configs)
            msg = M2SReq(ReqOp.MEM_RD, 0, config.state_base + 64 * rng.randrange(8))
        access = self.device.decode(msg)
        if access.kind is Kind.REFUSED:
            self.refused.append(Op(msg, 0, access))
        return msg

    def window_write(self, region: int) -> M2SMessage:
        """Draw a write through the control window: a commit, a close, or other registers."""
        rng, by_name, prefix = self.rng, self.predictor.by_name, f"REGION[{region}]."
        choice, line = rng.randrange(6), [rng.choice(list(by_name.values()))]
        words = {one.address: rng.getrandbits(32) for one in line}
        if choice < 3:
            words = {
                by_name[prefix + leaf].address: value
                for leaf, value in self.changed(region).register_values().items()
            }
            words[by_name[prefix + "EPOCH"].address] = rng.choice((1, 2, rng.getrandbits(32)))
        elif choice == 3:
            words = {by_name[prefix + "CTRL"].address: 1}
        elif choice == 4:
            words = {by_name[one].address: rng.randrange(4) for one in ("IRQ_STATUS", "CTRL")}
        data, be = pack_line(words)
        address = self.board.model.control.address(next(iter(words)))
        op = RwdOp.MEM_WR_PTL if rng.random() < 0.9 else RwdOp.MEM_WR
        options: dict[str, Any] = {"be": be} if op is RwdOp.MEM_WR_PTL else {}
        return M2SRwD(op, 0, address, ldid=rng.randrange(3), data=data, **options)

    def execute(self, one: list[Any]) -> None:
        """Execute a request; one to the control window has the effect of its words."""
        if one[1] is not None:
            return
        msg, access = one[0], self.device.decode(one[0])
        super().execute(one)
        if access.kind is not Kind.CONTROL:
            return
        if isinstance(msg, M2SReq):
            first = access.line * 64
            found = [self.predictor.by_address.get(first + at) for at in range(0, 64, 4)]
            words = [0 if register is None else self.value(register) for register in found]
            response: Any = one[1]
            one[1] = dataclasses.replace(response, data=pack_words(words))
            return
        region = access.line - REGION_LINE
        if 0 <= region < len(self.configs):
            pending = [c for c in self.board.judge.pending(region) if c.in_band and c.end < 0]
            for commit in pending[-1:]:
                self.settled(region, commit.closes, commit.config, commit.epoch)

    def answer(self, one: list[Any]) -> None:
        """Answer a request with a load that its neighbours allow, mostly."""
        rng, rule = self.rng, self.board.devload
        self.execute(one)
        op = next(op for op in self.board.judge.ops() if op.msg is one[0] and op.end < 0)
        devload = rng.choice(sorted(rule.levels(op)))
        if op.window in rule.fallback_since and rng.random() < 0.7:
            devload = max(devload, DevLoad.MODERATE)
        if rng.random() < self.kind.wrong:
            devload = rng.choice(list(DevLoad))
        one[1] = dataclasses.replace(one[1], devload=devload)
        if op.access.kind is Kind.STATUS and isinstance(one[1], S2MDRS) and rng.random() < 0.5:
            words = unpack_words(one[1].data)
            at = rng.randrange(16)
            words[at] = rng.choice((words[at] + 1, max(0, words[at] - 1), WORD_MASK))
            one[1] = dataclasses.replace(one[1], data=pack_words(words))
        super().answer(one)

    def settled(self, region: int, closes: bool, config: RegionConfig, epoch: int) -> None:
        """Close or commit a region in the device."""
        if closes:
            self.device.close(region)
        elif self.device.commit(region, config, epoch) == 0:
            self.configs[region] = config

    def changed(self, region: int) -> RegionConfig:
        """Draw a descriptor near that of a region."""
        rng, config = self.rng, self.configs[region]
        changes: list[dict[str, Any]] = [
            {},
            {},
            {"strict": not config.strict},
            {"lines_log2": rng.randrange(3)},
            {"workers": rng.choice((0, 1, 2, 3, 4, 65))},
            {"ld_mask": rng.choice((0xFFFF, 0xFFF6))},
            {"base": (region + 1 + 16 * rng.randrange(2)) << 40},
            {"state_base": (region << 20) + 64 * rng.randrange(12)},
            {"mode": rng.choice(list(Mode))},
        ]
        return dataclasses.replace(config, **rng.choice(changes))

    def commit(self, region: int) -> None:
        """Begin a commit or a close of a region by the register bus."""
        rng, prefix = self.rng, f"REGION[{region}]."
        self.end_write()
        before = len(self.board.judge.pending(region))
        if rng.randrange(3):
            for leaf, value in self.changed(region).register_values().items():
                if self.predictor.values[prefix + leaf] != value:
                    self.bus.write(prefix + leaf, value)
            access = self.access(prefix + "EPOCH", rng.choice((1, 2, rng.getrandbits(32))))
        else:
            access = self.access(prefix + "CTRL", 1)
        self.predictor.begin(access)
        steps: list[Callable[[], object]] = [lambda: self.predictor.end(access)]
        for one in self.board.judge.pending(region)[before:]:
            steps.append(lambda one=one: self.settled(region, one.closes, one.config, one.epoch))  # type: ignore[misc]
        self.pending[region] = steps
        if self.board.model.control.base and rng.random() < 0.3:  # a race with the other port
            self.flying.append([self.bench.begin(self.window_write(region)), None])

    # -- register bus -------------------------------------------------------------------------
    def access(self, name: str, value: int, strobe: int = 15) -> AxiLiteAccess:
        return AxiLiteAccess(True, self.bus.address(name), value, strobe)

    def registers_step(self) -> None:
        """Begin or end some accesses on the register bus."""
        rng = self.rng
        for _ in range(2):
            if len(self.reading) < 4 and rng.random() < 0.5:
                access = AxiLiteAccess(False, rng.choice(self.choices).address)
                self.predictor.begin(access)
                self.reading.append(access)
            elif rng.random() < 0.3:
                for name in rng.choice((("SLOT_HIT", "SLOT_MISS"), ("STATUS",), _SHOWN)):
                    access = AxiLiteAccess(False, self.bus.address(name))
                    self.predictor.begin(access)
                    self.end_read(access)
            elif self.reading:
                self.end_read(self.reading.pop(rng.randrange(len(self.reading))))
        if self.writing is not None and rng.random() < 0.5:
            self.end_write()
        elif self.writing is None and rng.random() < 0.3:
            access, then = self.drawn_write()
            self.predictor.begin(access)
            self.writing = access, then
        self.board.now += rng.choice((0, 0, 0, 1, 5, 12, 400))

    def end_write(self) -> None:
        """Let the device do what a write asks for, and answer it."""
        if self.writing is not None:
            (access, then), self.writing = self.writing, None
            then()
            self.predictor.end(access)
            self.device.control = self.board.model.control

    def drawn_write(self) -> tuple[AxiLiteAccess, Callable[[], object]]:
        """Draw a write, which is no commit; return it and what the device does with it."""
        rng = self.rng
        region = rng.randrange(len(self.configs))
        names: list[tuple[str, int]] = [
            ("CTRL", rng.randrange(2)),
            ("CAP_WINDOW", rng.randrange(4)),
            ("CAP_THRESHOLD", rng.randrange(3)),
            (
                "DEVLOAD_THRESHOLD",
                rng.randrange(6) | rng.randrange(6) << 8 | rng.randrange(6) << 16,
            ),
            ("IRQ_STATUS", rng.getrandbits(7)),
            ("IRQ_ENABLE", rng.getrandbits(7)),
            ("FALLBACK", rng.getrandbits(8)),
            ("ERR_INFO", rng.randrange(2)),
            (
                "RAS_INJECT",
                rng.randrange(2) << 31 | rng.randrange(6) << 24 | rng.randrange(3) << 16,
            ),
            ("CTRL_WINDOW_HI", rng.choice((WINDOW >> 32, WINDOW >> 32, 2))),
            ("CTRL_WINDOW_LO", rng.choice((0, 0, 4096, 64))),
            ("CTRL_LD_MASK", rng.choice((3, 7, 1))),
            (f"REGION[{region}].OWNER_LD", rng.choice((0, 0x100, 0x102))),
            (f"REGION[{region}].THRESHOLD", rng.randrange(1, 3)),
        ]
        wanted = self.kind.writes
        chosen = [one for one in names if not wanted or one[0].rpartition(".")[2] in wanted]
        name, value = rng.choice(chosen)
        if name == "CTRL":
            return self.access(name, value), self.device.clear_counters if value else lambda: None
        return self.access(name, value, rng.choice((15, 15, 15, 1, 0, 12))), lambda: None

    def end_read(self, access: AxiLiteAccess) -> None:
        """Answer a read."""
        register = self.predictor.by_address[access.address]
        access.data = self.value(register)
        if self.rng.random() < self.kind.wrong:
            access.data ^= 1 << self.rng.randrange(32)
        self.predictor.end(access)

    def pick(self, span: Span) -> int:
        """Draw a value of a range, or one next to it."""
        if span.also and self.rng.random() < 0.5:
            return self.rng.choice(sorted(span.also))
        near = self.rng.random() < self.kind.wrong
        low, high = max(0, span.low - near), span.high + near
        return self.rng.choice((low, high)) & WORD_MASK

    def value(self, register: Register) -> int:
        """Draw the value that a read returns: mostly one that is right."""
        rng, predictor, board, name = self.rng, self.predictor, self.board, register.name
        if name in ("SLOT_HIT", "SLOT_MISS"):
            engine = board.counters["ENGINE"].span().high
            if name == "SLOT_MISS":
                self.misses = rng.choice((min(self.misses, engine), engine))
                return self.misses
            return max(0, engine - self.misses)
        if name in predictor.link_counters:
            return self.pick(predictor.link_counters[name].span())
        if name in board.counters:
            exact = self.device.counters.get(name)
            return self.pick(board.counters[name].span()) if exact is None else exact
        if name in _SHOWN:
            return self.captured(register)
        leaf = name.rpartition(".")[2]
        fallen = [self.pick(raised(one.span())) & 1 for one in board.fallback]
        if name in ("DONE", "FALLBACK"):
            flags = [self.device.region_status(n).done for n in range(len(fallen))]
            bits = flags if name == "DONE" else fallen
            return sum(bool(bit) << at for at, bit in enumerate(bits))
        if name.startswith("REGION") and leaf in ("STATUS", "EPOCH", "COMPLETE_LINES"):
            region = predictor.region_of(name)
            status = self.device.region_status(region)
            if leaf != "STATUS":
                return int(getattr(status, leaf.lower()))
            known = {one.name: int(getattr(status, one.name.lower(), 0)) for one in register.fields}
            return register.pack(**known | {"FALLBACK": fallen[region]})
        return self.own_value(register)

    def captured(self, register: Register) -> int:
        """Draw the value of a register of the error capture."""
        valid = self.rng.random() < 0.8
        if not self.refused:
            return int(valid)
        op = self.rng.choice(self.refused[-4:] if valid else self.refused)
        fields = shown(error_of(op), register.name)
        return register.pack(**fields | ({"VALID": valid} if register.name == "ERR_INFO" else {}))

    def own_value(self, register: Register) -> int:
        """Draw the value of a register of the device that is no counter and no capture."""
        rng, predictor, board, name = self.rng, self.predictor, self.board, register.name
        if name == "STATUS":
            busy = self.pick(board.memory.initialiser.busy())
            committing = predictor.rules.committing_now(tight=rng.random() < 0.5)
            return register.pack(
                LINK_UP=rng.random() < 0.9, COMMIT_BUSY=int(committing), INIT_BUSY=busy & 1
            )
        if name == "IRQ_STATUS":
            each = {
                one: self.pick(raised(bit.span())) & 1
                for one, bit in predictor.interrupts.bits.items()
            }
            return register.pack(**each)
        if name == "RAS_ERROR" and board.ram.flips:
            ram, row = rng.choice(board.ram.flips)
            return register.pack(VALID=rng.randrange(2), RAM=ram, ROW=row)
        if name in ("LINK_STATE", "LINK_ERR_INFO"):
            faults = self.kind.faulty and rng.random() < 0.7
            return rng.choice((0, 1, 0x10, 0x11)) if faults else 0
        old = {predictor.values[name]} | predictor.before.get(name, set())
        return rng.choice(sorted(old | predictor.others.get(name, set())))

    # -- memory -------------------------------------------------------------------------------
    def beat(self) -> None:
        """Pass a drawn beat on the memory port: mostly one that the device may make."""
        rng, kind = self.rng, self.kind
        config = rng.choice(self.configs)
        write, port = rng.random() < 0.7, rng.choice((0, 3, 3, 1, 2, rng.randrange(8)))
        line, last = rng.randrange(6) << 14 | rng.randrange(8), rng.random() < 0.9
        data = rng.choice((0, 0, rng.getrandbits(512)))
        if rng.random() < 0.8 and config.mode is not Mode.IDENTITY:
            first, step = records(config, self.device.params.cnt_w)
            index = rng.randrange(config.lines)
            beat = rng.choice((0, 0, rng.randrange(step + 1)))
            line = first + step * index + beat
            port = rng.choice((0, 3)) if write else 0
        elif rng.random() < 0.8:
            port = rng.choice((1, 2))
            line = config.state_line + rng.randrange(config.workers + 1) * config.lines
        strobe = BE_ALL if rng.random() < 0.9 else rng.getrandbits(64)
        bad = rng.random() < kind.errors
        poison, resp = bad and rng.random() < 0.5, bad * rng.choice((0, 2, 2, 3))
        answered = rng.random() < 0.9
        drawn = MemBeat(write, port, line, data, strobe, poison, resp, answered, 1, last)
        assert isinstance(self.board.observer, NfCoverage)
        self.board.observer.beat(drawn)
        self.board.memory_beat(drawn)


class DrawnLink:
    """Link whose flits are drawn.

    Args:
        rng: Source of what is drawn.
        board: Scoreboard, for its clock.
        faulty: Whether the link has faults.
    """

    def __init__(self, rng: Random, board: Scoreboard, faulty: bool) -> None:
        self.rng, self.board, self.faulty = rng, board, faulty
        self.counts: Counter[str] = Counter()
        self.state = LinkState(board.clock, lambda: self.counts)

    def step(self) -> None:
        """Pass one flit, and now and then a fault."""
        rng, bad = self.rng, self.faulty and self.rng.random() < 0.1
        kind = rng.choice((FlitKind.PROTOCOL, FlitKind.DATA, FlitKind.CONTROL, FlitKind.NULL))
        control = None
        if bad:
            kind = rng.choice(list(FlitKind))
            control = rng.choice((None, RetryReq(1), RetryAck(False, False, 1, 1)))
            self.counts[rng.choice(LINK_COUNTERS)] += rng.randrange(1, 3)
        way = rng.choice(list(Direction))
        self.state.flit(FlitEvent(way, self.board.clock(), 0, 0, kind, control=control))
        if bad and rng.random() < 0.1:
            self.state.retrain()
