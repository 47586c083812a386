# SPDX-License-Identifier: Apache-2.0
"""Transaction-level reference model of the device: one message in, its response out.

The model has no slots, queues or clocks: its responses hold for every micro-architecture. The
scoreboard steps it in the order in which the device must have executed the messages. If messages
race on one line, the scoreboard tries several orders with ``line_key``, ``snapshot`` and
``restore``. `explain` says why a response is expected, as text for error messages. Spec: controller
§1 to §6.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import groupby

from cocotbext.cxl.wire.messages import (
    BE_ALL,
    S2MDRS,
    S2MNDR,
    Completion,
    DrsOp,
    M2SMessage,
    M2SRwD,
    NdrOp,
    S2MMessage,
    completion_of,
)
from models.access_decode import READ_KINDS, Access, Cause, Kind, decode_access, is_partial
from models.aggregated_line import AggregatedLine
from models.device_state import DeviceState
from models.expected_response import AccessError, ExpectedResponse
from models.info_status_lines import WORKERS_A_LINE, pack_words
from models.line_packing import LINE_BYTES
from models.memory import ALL_BYTES, UNKNOWN_LINE, ZERO_LINE, MemoryLine
from models.modes import Mode
from models.regions import (
    PLANE_SELECTOR,
    RAW_SELECTOR,
    STATUS_SELECTOR,
    SUM8_SELECTOR,
    SUM16_SELECTOR,
    WORKER_LINES_SELECTOR,
    RegionConfig,
)

_CAUSES = {
    Cause.UNSUPPORTED: "the opcode is not supported",
    Cause.UNMAPPED: "the address is in no window and beyond the memory",
    Cause.STATE_AREA: "the address is in a region's state area",
    Cause.LD_MASK: "LD_MASK does not name this LD-ID",
    Cause.SELECTOR: "the selector means nothing in this mode and direction",
    Cause.PARTIAL: "MemWrPtl is refused in the low-bit modes, and of a part of a register",
    Cause.CONTROL: "the control window may not be written by this LD-ID, or with poisoned data",
    Cause.BIND: "BIND: the LD-ID is not that of the worker (w >> BIND_SHIFT)",
}


_FLAGS = {
    "poisoned": "poisoned",
    "lost": "state lost",
    "saturated": "saturated",
    "illegal": "illegal codes",
}


def _workers(numbers: list[int]) -> str:
    """Format worker numbers as ranges: [0, 1, 2, 5] as "0-2,5"; "none" for an empty list."""
    out: list[str] = []
    # Numbers that follow each other keep their distance from their place.
    for _, run in groupby(enumerate(sorted(numbers)), lambda one: one[1] - one[0]):
        found = [number for _, number in run]
        out.append(str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}")
    return ",".join(out) or "none"


def _line_state(config: RegionConfig, line: AggregatedLine | None) -> str:
    if line is None:
        return f"line untouched in this epoch (0 of {config.workers} workers)"
    flags = [text for name, text in _FLAGS.items() if getattr(line, name)]
    tail = f"; {', '.join(flags)}" if flags else ""
    return f"{len(line.data)} of {config.workers} workers seen ({_workers(list(line.data))}){tail}"


def _effect(
    msg: M2SMessage,
    access: Access,
    config: RegionConfig,
    line: AggregatedLine | None,
    closed: bool,
) -> str:
    seen = line is not None and access.selector is not None and line.seen(access.selector)
    complete = closed or (line is not None and line.all_seen(config.workers))
    if access.kind == Kind.CONTRIBUTION:
        assert isinstance(msg, M2SRwD)
        if config.mode.low_bit and seen:
            return f"duplicate of worker {access.selector}: counted, changes nothing"
        if closed:
            return f"contribution of worker {access.selector} is late: the region is closed"
        if msg.poison:
            return f"poisoned contribution of worker {access.selector}: line marked, data not used"
        return f"contribution of worker {access.selector} accepted"
    if access.kind == Kind.INFO:
        return "reads the line's bookkeeping; never early, Poison=0"
    worker = (access.selector or 0) - RAW_SELECTOR
    if access.kind == Kind.RAW:
        missing = line is None or not line.seen(worker)
        early = missing and not closed
        what = f"worker {worker}'s own line" + (" (not written: zeros)" if missing else "")
    else:
        early = not complete
        result = "sum" if config.mode == Mode.FP32 else "vote"
        selector = access.selector or 0
        sums = f"SUM8 line {selector - SUM8_SELECTOR}"
        if selector < SUM8_SELECTOR:
            sums = f"SUM16 line {selector - SUM16_SELECTOR}"
        plane = f"count plane {selector - PLANE_SELECTOR}"
        what = {Kind.RESULT: result, Kind.SUM: sums}.get(access.kind, plane)
        what += " so far" if early else ""
    reasons = []
    if early and config.strict:
        reasons.append("early with STRICT")
    if line is not None and line.poisoned:
        reasons.append("line poisoned")
    marked = sorted(line.marked) if line is not None else []
    if marked and (access.kind != Kind.RAW or worker in marked):
        reasons.append(f"memory marks the line of worker {_workers(marked)}")
    poison = f"Poison=1 ({', '.join(reasons)})" if reasons else "Poison=0"
    return f"reads {what}; {'early read, ' if early else ''}{poison}"


def explain_access(state: DeviceState, msg: M2SMessage, access: Access) -> str:
    """Explain an access in two lines: address decoding, then the line's state and the effect.

    Nothing is changed.

    Args:
        state: State of the device before the access.
        msg: Request.
        access: Its decoding.
    """
    region = access.region
    config = None if region is None else state.config(region)
    line = None if region is None else state.line_state(region, access.line)
    closed = region is not None and state.region_status(region).closed
    name = getattr(msg.opcode, "name", f"opcode {int(msg.opcode)}")
    head = f"{name} tag {msg.tag:#06x} ld {msg.ldid} addr {msg.addr:#x}: "
    if config is None:
        head += f"line {access.line:#x}, in no window"
    else:
        head += (
            f"region {access.region} ({config.mode.name}, n={config.lines}, W={config.workers}), "
            f"selector {access.selector}, line {access.line}"
        )
    if access.kind == Kind.REFUSED:
        return f"{head}\nrefused, {access.cause.name}: {_CAUSES[access.cause]}"
    if access.kind == Kind.NO_EFFECT:
        return f"{head}\nno effect, answered by Cmp"
    if access.kind == Kind.CONTROL:
        return f"{head}\nregisters from {access.line * 64:#05x}, compared one by one"
    if access.kind == Kind.DROPPED:
        return f"{head}\na speculative read: dropped, no answer"
    if access.memory_line is not None:
        entry = state.memory.load(access.memory_line)
        what = "IDENTITY backing" if config is not None else "ordinary memory"
        known = "" if entry.known == ALL_BYTES else ", content (partly) undetermined"
        return f"{head}\n{what} line {access.memory_line:#x}, poison {int(entry.poison)}{known}"
    assert config is not None
    if access.kind == Kind.STATUS:
        return f"{head}\nfigures of the region, compared word by word"
    effect = _effect(msg, access, config, line, closed)
    return f"{head}\n{_line_state(config, line)}{', closed' if closed else ''}; {effect}"


ONES_LINE = b"\xff" * LINE_BYTES

MEMORY_KEY = -1
"""First part of the key of a line of ordinary memory, in place of a region."""
_ERROR_KEY = (-2, 0)


@dataclass(frozen=True)
class Snapshot:
    """State that messages of one key can change, as taken by ``DeviceModel.snapshot``."""

    key: Hashable
    commits: int
    tally: dict[str, int]
    line: AggregatedLine | None = None
    memory: MemoryLine | None = None
    refused: int = 0
    refused_here: tuple[int, ...] = ()
    first_error: AccessError | None = None


class DeviceModel(DeviceState):
    """Reference model of the controller and its memory: executes one message at a time."""

    # -- messages ---------------------------------------------------------------------------------

    def decode(self, msg: M2SMessage, illegal_framing: bool = False) -> Access:
        """Return how the device decodes ``msg`` in the present state, without side effects."""
        return decode_access(msg, self.params, self._configs, illegal_framing, self.control)

    def step(self, msg: M2SMessage, illegal_framing: bool = False) -> S2MMessage | None:
        """Execute ``msg``; return the expected answer (DevLoad light), or None for no answer."""
        return self.step_result(msg, illegal_framing).response

    def step_result(self, msg: M2SMessage, illegal_framing: bool = False) -> ExpectedResponse:
        """Execute ``msg``; return its decoding, the expected response, and its determined parts."""
        access = self.decode(msg, illegal_framing)
        kind = access.kind
        if kind == Kind.DROPPED:
            return ExpectedResponse(access, None)
        if kind == Kind.REFUSED:
            self._refuse(msg, access)
            if completion_of(msg) == Completion.DRS:
                return self._data(msg, access, ONES_LINE, True)
            return ExpectedResponse(access, self._cmp(msg))
        if kind == Kind.NO_EFFECT:
            return ExpectedResponse(access, self._cmp(msg))
        if kind in (Kind.MEMORY, Kind.IDENTITY):
            return self._plain(msg, access)
        if kind == Kind.CONTRIBUTION:
            assert isinstance(msg, M2SRwD)
            self._contribute(msg, access)
            return ExpectedResponse(access, self._cmp(msg))
        if kind == Kind.CONTROL:  # what registers hold is not the model's affair
            if isinstance(msg, M2SRwD):
                return ExpectedResponse(access, self._cmp(msg))
            return self._data(msg, access, ZERO_LINE, False, known=0)
        if kind == Kind.STATUS:
            return self._read_status(msg, access)
        if kind == Kind.INFO:
            assert access.region is not None
            info = self.line_info(access.region, access.line)
            return self._data(msg, access, info.pack(), False)
        return self._read_line(msg, access)

    def _read_status(self, msg: M2SMessage, access: Access) -> ExpectedResponse:
        """Return the response to a read of the figures of a region, with no byte marked as known.

        Figures that depend on the device's slots are 0, and races with other requests are unknown.
        """
        region, selector = access.region, access.selector
        assert region is not None
        assert selector is not None
        if selector == STATUS_SELECTOR:
            data = self.status_view(region).pack()
        else:
            first = (selector - WORKER_LINES_SELECTOR) * WORKERS_A_LINE
            data = pack_words(self.worker_lines(region)[first : first + WORKERS_A_LINE])
        return self._data(msg, access, data, False, known=0)

    @staticmethod
    def _cmp(msg: M2SMessage) -> S2MNDR:
        return S2MNDR(opcode=NdrOp.CMP, tag=msg.tag, ldid=msg.ldid)

    @staticmethod
    def _data(
        msg: M2SMessage,
        access: Access,
        data: bytes,
        poison: bool,
        known: int = ALL_BYTES,
        poison_known: bool = True,
    ) -> ExpectedResponse:
        response = S2MDRS(
            opcode=DrsOp.MEM_DATA, tag=msg.tag, ldid=msg.ldid, poison=poison, data=data
        )
        return ExpectedResponse(access, response, known, poison_known)

    def _refuse(self, msg: M2SMessage, access: Access) -> None:
        names = {Cause.UNSUPPORTED: "UNSUPPORTED", Cause.UNMAPPED: "UNMAPPED"}
        self._count(names.get(access.cause, "REFUSED"), _ERROR_KEY)
        if access.region is not None:
            self._regions[access.region].refused += 1
        error = AccessError(
            access.cause, access.write, int(msg.opcode), msg.ldid, msg.addr, msg.tag
        )
        self.refused.append(error)
        if self.first_error is None:
            self.first_error = error

    def _plain(self, msg: M2SMessage, access: Access) -> ExpectedResponse:
        where = access.memory_line
        assert where is not None
        key = (MEMORY_KEY, where)
        if isinstance(msg, M2SRwD):
            if msg.poison:
                self._count("POISON_RECEIVED", key)
            if where in self.write_errors:
                self._count("MEM_WRITE_ERROR", key)
                self.memory.store(where, UNKNOWN_LINE)
            else:
                self.memory.write(where, msg.data, _enables(msg), msg.poison)
            return ExpectedResponse(access, self._cmp(msg))
        if where in self.read_errors:
            self._count("MEM_READ_ERROR", key)
            return self._data(msg, access, ONES_LINE, True)
        entry = self.memory.load(where)
        if entry.poison:
            self._count("MEM_POISON", key)
        return self._data(msg, access, entry.data, entry.poison, entry.known, entry.poison_known)

    def _contribute(self, msg: M2SRwD, access: Access) -> None:
        region, i, worker = access.region, access.line, access.selector
        assert region is not None
        assert worker is not None
        state = self._regions[region]
        config = state.config
        assert config is not None
        line = self._line(region, i)
        key = (region, i)
        new = not line.seen(worker)
        fp32_mode = config.mode == Mode.FP32
        if not (fp32_mode or new):
            self._count("DUPLICATE", key)
            return
        if state.closed:
            self._count("LATE", key)
            line.late += 1
            state.late += 1
            return
        if msg.poison:
            self._count("POISON_RECEIVED", key)
            state.mark(line)
            line.kept = False
            return
        if fp32_mode:
            backing = config.state_line + worker * config.lines + i
            if backing in self.write_errors:
                self._count("MEM_WRITE_ERROR", key)
                self.memory.store(backing, UNKNOWN_LINE)
                state.mark(line)
                line.kept = False
                return
            line.store(worker, msg.data, _enables(msg))
        else:
            was = (line.saturated, line.illegal)
            bad = line.add(worker, msg.data, config, self.params.cnt_max)
            self._count("ILLEGAL_CODE", key, bad)
            state.saturated += line.saturated - was[0]
            state.illegal += line.illegal - was[1]
        state.seen[worker] += new
        self._count("CONTRIBUTION", key)
        if not (line.counted_complete or line.lost) and line.all_seen(config.workers):
            line.counted_complete = True
            state.complete += 1

    def _read_line(self, msg: M2SMessage, access: Access) -> ExpectedResponse:
        region, i, selector = access.region, access.line, access.selector
        assert region is not None
        assert selector is not None
        config = self._regions[region].config
        assert config is not None
        line = self._line(region, i)
        key = (region, i)
        worker = selector - RAW_SELECTOR
        raw = access.kind == Kind.RAW
        early = not (line.seen(worker) if raw else line.all_seen(config.workers))
        early = early and not self._regions[region].closed
        if early:
            self._count("EARLY_READ", key)
        poison = line.poisoned or (early and config.strict)
        if config.mode == Mode.FP32:
            touched = {w for w in line.data if not raw or w == worker}
            base = config.state_line + i
            bad = {w for w in touched if base + w * config.lines in self.read_errors}
            marked = touched & line.marked
            self._count("MEM_READ_ERROR", key, len(bad))
            self._count("MEM_POISON", key, len(marked - bad))
            data = line.data.get(worker, ZERO_LINE) if raw else line.summed()
            if bad or marked:
                got = self._data(msg, access, ONES_LINE if bad else data, True)
                if line.kept and not raw:  # a sum from before the error or mark is as good
                    return replace(got, also=self._data(msg, access, data, poison).response)
                return got
            if config.keeps_sums and not (raw or early or poison):
                line.kept = True
        else:
            data = line.view(selector, config, self.params.cnt_max)
        return self._data(msg, access, data, poison)

    # -- explaining -------------------------------------------------------------------------------

    def explain(self, msg: M2SMessage, illegal_framing: bool = False) -> str:
        """Explain the response to ``msg`` in two lines: decoding, then line state and reason.

        There are no side effects.
        """
        return explain_access(self, msg, self.decode(msg, illegal_framing))

    # -- several orders ---------------------------------------------------------------------------

    def line_key(self, msg: M2SMessage) -> Hashable | None:
        """Return the key of the line whose state ``msg`` touches, or None if it touches no line.

        The key is (region or MEMORY_KEY, line). Messages with different keys never influence each
        other's responses between two commits.
        """
        access = self.decode(msg)
        if access.memory_line is not None:
            return (MEMORY_KEY, access.memory_line)
        if access.kind in (Kind.CONTRIBUTION, *READ_KINDS, Kind.INFO):
            return (access.region, access.line)
        return None

    def snapshot(self, key: Hashable | None) -> Snapshot:
        """Return all state that messages of ``key`` can change, counters included."""
        tally_key = _ERROR_KEY if key is None else key
        tally = dict(self._tallies.get(tally_key, {}))
        if key is None:
            return Snapshot(
                key,
                self._commits,
                tally,
                refused=len(self.refused),
                refused_here=tuple(region.refused for region in self._regions),
                first_error=self.first_error,
            )
        region, line = _split(key)
        if region == MEMORY_KEY:
            return Snapshot(key, self._commits, tally, memory=self.memory.load(line))
        return Snapshot(key, self._commits, tally, line=self._line(region, line).copy())

    def restore(self, key: Hashable | None, snap: Snapshot) -> None:
        """Undo the messages of ``key`` since ``snap``; other keys keep their changes.

        Raises:
            ValueError: the snapshot is of another key, or from before a commit.
        """
        if snap.key != key or snap.commits != self._commits:
            raise ValueError(f"snapshot of {snap.key} cannot be restored here")
        self._restore_tally(_ERROR_KEY if key is None else key, snap.tally)
        if key is None:
            del self.refused[snap.refused :]
            self.first_error = snap.first_error
            for state, count in zip(self._regions, snap.refused_here, strict=True):
                state.refused = count
            return
        region, number = _split(key)
        if snap.memory is not None:
            self.memory.store(number, snap.memory)
            return
        assert snap.line is not None
        state = self._regions[region]
        state.move(self._line(region, number), snap.line)
        state.lines[number] = snap.line.copy()


def _enables(msg: M2SRwD) -> int | None:
    """Return the byte enables of a partial write, or None for a full one.

    MemWrPtl with all 64 bytes enabled is a full write.
    """
    return msg.be if is_partial(msg) and msg.be != BE_ALL else None


def _split(key: Hashable) -> tuple[int, int]:
    if isinstance(key, tuple) and len(key) == 2:
        return int(key[0]), int(key[1])
    raise ValueError(f"{key!r} is not a line key")
