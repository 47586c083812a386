# SPDX-License-Identifier: Apache-2.0
"""Replay of recorded runs into fresh checkers, without a simulator, as they are or damaged.

`verif.env.recorder` writes the events of a run. `EventReplay` passes them on as `NfEnv` does, and
`Watch.summary` returns all that the checkers derived from them.
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

from cocotbext.cxl.faults import FaultKind
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire.flits import Direction
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SReq, M2SRwD, Message
from models.device import DeviceModel
from models.memory import MemoryLine
from models.parameters import DeviceParams
from neuron_fabric.data import parse_json
from neuron_fabric.errors import say
from verif.axi import Resp
from verif.coverage.cover_model import BETWEEN
from verif.coverage.device_coverage import NfCoverage
from verif.coverage.link_points import ERRORS, RRSM, STATES
from verif.mem.memory_config import Background, MemBeat
from verif.mem.store import MemStore
from verif.recorded.drawn_bench import DRAWN, drawn
from verif.recorded.watch_bench import PERIOD, Summary, Watch, checksum
from verif.regs.axil_agent import AxiLiteAccess
from verif.scoreboard.lenient import LenientScoreboard
from verif.scoreboard.link_state import LinkState
from verif.scoreboard.register_predictor import RegisterPredictor
from verif.scoreboard.scoreboard import Scoreboard

FOLDER = Path(__file__).parent
RUNS = FOLDER / "runs.jsonl.xz"
DERIVED = FOLDER / "derived.jsonl.xz"


class RecordedTest(NamedTuple):
    """Test that is recorded: its build, scale and seed, and which of its cases."""

    test: str
    build: str = "small"
    scale: float = 0.1
    case: int = 0
    seed: int = 1


RECORDED = {
    "mixed": RecordedTest("test_scenario::mixed", scale=0.2),
    "tiny": RecordedTest("test_scenario::mixed", "edge_tiny", 0.2, seed=2),
    "memory faults": RecordedTest("test_scenario::memory_faults", scale=0.2, seed=3),
    "refused": RecordedTest("test_scenario::refused_accesses", "default", 0.2),
    "reshaped": RecordedTest("test_scenario::reshaped_regions", "default", 0.2),
    "FP32 values": RecordedTest("test_scenario::fp32_values", "default", 0.2),
    "trust": RecordedTest("test_trust::refused_twice", "edge_crowded"),
    "kept sums": RecordedTest("test_kept_sums::served"),
    "faults of kept sums": RecordedTest("test_kept_sums::faults", "edge_crowded"),
    "commits": RecordedTest("test_window::commits"),
    "moves": RecordedTest("test_window::moves"),
    "owners": RecordedTest("test_window::owners", "edge_crowded"),
    "causes": RecordedTest("test_protection::combined_causes", "sweep"),
    "order of commits": RecordedTest("test_sweeps::commit_order", "sweep"),
    "TERN5": RecordedTest("test_tern5::codes", "tern5_narrow"),
    "codes": RecordedTest("test_int::events"),
    "views": RecordedTest("test_views::status"),
    "retrain": RecordedTest("test_views::close_in_retrain", "default"),
    "illegal lines": RecordedTest("test_counts::illegal_lines"),
    "poison": RecordedTest("test_events::poison", "default"),
    "mixed regions": RecordedTest("test_mixed::mixed_regions"),
    "eviction": RecordedTest("test_eviction::eviction"),
    "held state": RecordedTest("test_reset::held_state"),
    "interrupts": RecordedTest("test_interrupts::clears"),
    "flips": RecordedTest("test_ram_flips::flips"),
    "SECDED flips": RecordedTest("test_ram_flips::flips", "secded", seed=2),
    "capacity": RecordedTest("test_capacity_window::sliding_window"),
    "DevLoad": RecordedTest("test_capacity::devload_levels", "default"),
    "free buffers": RecordedTest("test_link_corners::link_num_free_buf"),
    "silent copy": RecordedTest("test_link_errors::link_silent_copy", "retry"),
    "pairs": RecordedTest("test_pairs::drawn", "tern5_narrow"),
    **{
        f"link fault {n}": RecordedTest("test_link_faults::link_faults", "retry", case=n)
        for n in (0, 3, 5)
    },
}
"""Recordings by name."""
MOST = 2000
"""Lines of a recording that are kept."""
ALONE = ("link fault 3",)
"""Recordings whose flits are also given to the points of blocks that stand alone."""
STORMS = 1
"""Replays of each recording with many damages."""
TRIES = 5
"""Places of a recording at which each damage is tried."""
BOARDS = {one.__name__: one for one in (Scoreboard, LenientScoreboard)}


@dataclass
class Event:
    """Event of a recording.

    Attributes:
        kind: Name of the method of `EventReplay` that takes it.
        values: Its arguments.
        at: Cycle.
        busy: Whether a transfer on the memory port is in progress.
        messages: Messages that a flit completes, with True for a misframed one.
        counts: Counters of the link tracker after a flit.
    """

    kind: str
    values: list[Any]
    at: int = 0
    busy: bool = False
    messages: Sequence[tuple[Message, bool]] = ()
    counts: Counter[str] | None = None


@dataclass(frozen=True)
class Recording:
    """Recorded run: its name, and its lines as `verif.env.recorder` writes them."""

    name: str
    lines: Sequence[list[Any]]

    @cached_property
    def events(self) -> list[Event]:
        """Return the events with absolute cycles; the first one describes the device."""
        out: list[Event] = []
        at, busy = 0, False
        for kind, *values in self.lines:
            if kind == "at":
                at, busy = at + values[0], bool(values[1])
            else:
                out.append(Event(kind, values, at, busy))
        return out


def recordings() -> list[Recording]:
    """Return all stored recordings."""
    runs: dict[str, list[list[Any]]] = {}
    lines: list[list[Any]] = []
    for text in lzma.decompress(RUNS.read_bytes()).decode().splitlines():
        line = parse_json(text)
        if line[0] == "run":
            lines = runs[line[1]] = []
        else:
            lines.append(line)
    return [Recording(name, lines) for name, lines in runs.items()]


class EventReplay:
    """Checkers of a device as `NfEnv` builds them, fed with recorded events.

    Args:
        recording: Gives the device and the order of events.
        covered: Follow the link flit by flit, and sample functional coverage; False uses the
            decoded flits of an earlier replay, and samples nothing.
    """

    def __init__(self, recording: Recording, covered: bool = True) -> None:
        hw, settings = recording.events[0].values
        self.now, self.memory_busy = 0, False
        self.found: list[str] = []
        self.on_error: Callable[[str], None] = self.found.append
        self.coverage = NfCoverage() if covered else None
        store = MemStore(Background(settings["background"]), int(settings["seed"], 16))
        model = DeviceModel(
            DeviceParams(**hw),
            lambda line: MemoryLine(store.background_line(line).to_bytes(64, "little")),
        )
        self.scoreboard = BOARDS[settings["scoreboard"]](
            model,
            hw["regions"],
            settings["budget"],
            lambda: self.now,
            self.coverage,
            lambda text: self.on_error(text),
            lambda: self.memory_busy,
        )
        self.tracker = LinkTracker(retry=True)
        self.counts = self.tracker.counters
        self.link_state = LinkState(lambda: self.now, lambda: self.counts)
        self.predictor = RegisterPredictor(self.scoreboard, DeviceParams(**hw), self.link_state)
        if self.coverage is not None:
            self.coverage.watch(self.scoreboard)
            self.coverage.pair.marks_log2 = settings["marks_log2"]
            own = {"Req": hw["req_credits"], "RwD": hw["rwd_credits"]}
            given = dict(zip(("NDR", "DRS"), settings["grants"], strict=True))
            self.coverage.link.bind(self.tracker, {**own, **given})
        self.accesses: tuple[deque[AxiLiteAccess], deque[AxiLiteAccess]] = (deque(), deque())
        self.check_counters: bool = settings["counters"]

    def play(self, events: Iterable[Event]) -> None:
        """Pass events to the checkers."""
        for event in events:
            self.now, self.memory_busy = event.at, event.busy
            if event.kind == "flit":
                self.flit(event)
            elif event.kind != "device":
                getattr(self, event.kind)(*event.values)

    # -- events -------------------------------------------------------------------------------
    def flit(self, event: Event) -> None:
        """Pass the messages of a flit, then the flit, as `CxlMemMonitor` does."""
        direction, scoreboard = Direction(event.values[0]), self.scoreboard
        if self.coverage is not None:
            protocol_id, words = (int(word, 16) for word in event.values[1:3])
            flit = self.tracker.observe(direction, protocol_id, words, event.at)
            if event.counts is None:
                bad = flit.report.misframed if flit.report is not None else ()
                event.messages = [(one, one in bad) for one in flit.messages]
                event.counts = Counter(self.tracker.counters)
                event.values.append(flit)
        for message, misframed in event.messages:
            if direction is Direction.M2S:
                scoreboard.request(message, misframed)  # type: ignore[arg-type]
            else:
                scoreboard.response(message)  # type: ignore[arg-type]
        assert event.counts is not None
        self.counts = event.counts
        self.link_state.flit(event.values[3])
        if self.coverage is not None:
            self.coverage.link.flit(event.values[3])

    def phy(self, up: int) -> None:
        """Pass a new level of phy_up."""
        if self.coverage is not None:
            self.coverage.link.phy(bool(up))
        if not up:
            self.tracker.phy_down()

    def beat(self, *values: Any) -> None:
        """Pass a beat on the memory port."""
        write, axi_id, line, data, strobe, poison, resp, answered, clocks, last = values
        beat = MemBeat(
            *(bool(write), axi_id, line, int(data, 16), strobe, bool(poison), resp),
            *(bool(answered), clocks, bool(last)),
        )
        if self.coverage is not None:
            self.coverage.beat(beat)
        self.scoreboard.memory_beat(beat)

    def begin(self, write: int, address: int, data: int, strobe: int) -> None:
        """Pass the acceptance of an access on the register bus."""
        access = AxiLiteAccess(bool(write), address, data if write else 0, strobe)
        self.accesses[write].append(access)
        self.predictor.begin(access)

    def end(self, write: int, data: int, resp: int) -> None:
        """Pass the answer to the oldest read or write on the register bus."""
        if not self.accesses[write]:
            return  # a reset has come between
        access = self.accesses[write].popleft()
        access.data, access.resp = data, Resp(resp)
        self.predictor.end(access)
        register = self.predictor.by_address.get(access.address & ~3)
        if register is not None and self.coverage is not None:
            self.coverage.register(register.name, access.data, access.write)

    def pin(self) -> None:
        """Look at the predicted level of the interrupt pin."""
        self.predictor.interrupts.pin()

    def reset(self) -> None:
        """Pass a reset of the device, which ends all accesses."""
        for queue in self.accesses:
            queue.clear()
        self.tracker.reset()
        self.counts = self.tracker.counters
        self.predictor.reset()

    def retrain(self) -> None:
        """Pass a fall of phy_up outside of a reset."""
        self.link_state.retrain()

    def poison(self, line: int) -> None:
        """Pass a line of device memory that a test has poisoned."""
        self.scoreboard.judge.poison(line)

    def finish(self) -> None:
        """Do the checks of the end of a test."""
        self.scoreboard.finish()
        if self.check_counters and not self.scoreboard.errors:
            self.predictor.finish()
        if self.coverage is not None:
            self.coverage.pair.settle()
            self.coverage.finished()


class _Counters:
    """Stand-in for a simulated design whose cover modules have counted drawn numbers."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_hits"):
            return defaultdict(lambda: SimpleNamespace(value=self._rng.randrange(1, 100)))
        return SimpleNamespace(value=self._rng.getrandbits(48)) if name.endswith("_seen") else self


def watched(recording: Recording, events: Sequence[Event]) -> Summary:
    """Replay events of a recording with coverage, and return the summary.

    The activities of the sweep of status fields take turns.
    """
    replay = EventReplay(recording)
    coverage = replay.coverage
    assert coverage is not None
    watch = Watch(replay.scoreboard, replay.predictor, coverage)
    activities = list(dict.fromkeys(name.split(BETWEEN)[0] for name in coverage.fields.sweep.bins))
    for number, event in enumerate(events):
        coverage.fields.meanwhile = activities[number // 64 % len(activities)]
        replay.play((event,))
        if number % PERIOD == 0:
            watch.look()
    return watch.summary(replay.found)


def blocks(recording: Recording) -> Summary:
    """Return the bins of blocks that stand alone, with the flits of a replayed recording.

    States of the link, faults and white-box counters are drawn.
    """
    coverage, rng = NfCoverage(), Random(1)
    for event in recording.events:
        if event.kind == "flit":
            status = {"lrsm": rng.randrange(len(STATES)), "rrsm": rng.randrange(len(RRSM))}
            status["error_kind"] = rng.choice((0, rng.randrange(len(ERRORS) + 1)))
            to_device = event.values[0] == Direction.M2S.value
            last = event.values[3] if to_device else None
            coverage.link_state.clock(status, rng.random() < 0.9, last)
            coverage.link_fault.fault(rng.choice(list(FaultKind)), rng.random() < 0.5, "idle")
    coverage.white_box.take(_Counters(rng))
    hits = coverage.model.hits().items()
    return {f"bin/{point}/{name}": n for point, bins in hits for name, n in bins.items()}


# Damages: each changes one event, as a fault of the device or of a monitor would.

Change = Callable[[Event, Random], list[Event] | None]
"""Returns the events in place of one, or None if the damage does not fit it."""


def _message(kinds: type | tuple[type, ...], change: Callable[[Any, Random], list[Any]]) -> Change:
    """Return the damage of the first message of some kinds that a flit completes."""

    def damage(event: Event, rng: Random) -> list[Event] | None:
        for at, (message, misframed) in enumerate(event.messages):
            if isinstance(message, kinds):
                new = [(one, misframed) for one in change(message, rng)]
                messages = [*event.messages[:at], *new, *event.messages[at + 1 :]]
                return [replace(event, messages=messages)]
        return None

    return damage


def _field(name: str, change: Callable[[int, Random], int]) -> Callable[[Any, Random], list[Any]]:
    return lambda one, rng: [replace(one, **{name: change(getattr(one, name), rng)})]


def _flip(data: bytes, rng: Random) -> bytes:
    return (int.from_bytes(data, "little") ^ 1 << rng.randrange(512)).to_bytes(64, "little")


def _value(
    kind: str, at: int, change: Callable[[Any, Random], Any], write: int | None = None
) -> Change:
    """Return the damage of one argument of an event; `write`: of writes, or of reads, only."""

    def damage(event: Event, rng: Random) -> list[Event] | None:
        if event.kind != kind or write not in (None, event.values[0]):
            return None
        values = list(event.values)
        values[at] = change(values[at], rng)
        return [replace(event, values=values)]

    return damage


def _bit(count: int) -> Callable[[int, Random], int]:
    return lambda value, rng: value ^ 1 << rng.randrange(count)


def _near(value: int, rng: Random) -> int:
    return max(0, value + rng.choice((-1, 1)))


_ANSWERS = S2MDRS, S2MNDR
_REQUESTS = M2SReq, M2SRwD
GENTLE: dict[str, Change] = {
    "answer: data": _message(S2MDRS, _field("data", _flip)),  # type: ignore[arg-type]
    "answer: poison": _message(S2MDRS, _field("poison", lambda one, _: not one)),
    "answer: DevLoad": _message(_ANSWERS, _field("devload", _bit(2))),
    "answer: opcode": _message(_ANSWERS, _field("opcode", _bit(1))),
    "request: data": _message(M2SRwD, _field("data", _flip)),  # type: ignore[arg-type]
    "request: enables": _message(M2SRwD, _field("be", _bit(64))),
    "request: poison": _message(M2SRwD, _field("poison", lambda one, _: not one)),
    "request: opcode": _message(_REQUESTS, _field("opcode", _bit(2))),
    "beat: line": _value("beat", 2, _near),
    "beat: data": _value("beat", 3, lambda _, rng: f"{rng.getrandbits(512):0128x}"),
    "beat: zeros": _value("beat", 3, lambda *_: "0" * 128),
    "beat: strobe": _value("beat", 4, _bit(64), 1),
    "beat: poison": _value("beat", 5, _bit(1)),
    "beat: response": _value("beat", 6, _bit(2)),
    "beat: ID": _value("beat", 1, _bit(2)),
    "beat: last": _value("beat", 9, _bit(1)),
    "read: bit": _value("end", 1, _bit(32), 0),
    "read: low bit": _value("end", 1, _bit(4), 0),
    "read: near": _value("end", 1, _near, 0),
    "access: response": _value("end", 2, lambda value, _: value ^ 2),
}
ROUGH: dict[str, Change] = {
    "answer: tag": _message(_ANSWERS, _field("tag", _bit(16))),
    "answer: LD-ID": _message(_ANSWERS, _field("ldid", _bit(4))),
    "answer: lost": _message(_ANSWERS, lambda *_: []),
    "answer: twice": _message(_ANSWERS, lambda one, _: [one, one]),
    "request: address": _message(
        _REQUESTS, _field("addr", lambda one, rng: one ^ 64 << rng.randrange(8))
    ),
    "request: LD-ID": _message(_REQUESTS, _field("ldid", _bit(4))),
    "request: lost": _message(_REQUESTS, lambda *_: []),
    "request: twice": _message(_REQUESTS, lambda one, _: [one, one]),
    "write: bit": _value("begin", 2, _bit(32), 1),
    "write: strobe": _value("begin", 3, _bit(4), 1),
    "access: address": _value("begin", 1, lambda one, rng: one ^ 4 << rng.randrange(4)),
    "event: lost": lambda event, _: [] if event.kind in ("flit", "beat") else None,
    "event: twice": lambda event, _: [event, event] if event.kind in ("flit", "beat") else None,
    "before: reset": lambda event, _: [replace(event, kind="reset", values=[]), event],
    "before: retrain": lambda event, _: [replace(event, kind="retrain", values=[]), event],
}


def _swap(events: list[Event], at: int, far: int) -> list[Event]:
    """Return the events with one of them moved; it gets the time of its new neighbour."""
    rest = [*events[:at], *events[at + 1 :]]
    place = min(max(at + far, 1), len(rest) - 1)
    moved = replace(events[at], at=rest[place].at, busy=rest[place].busy)
    return [*rest[:place], moved, *rest[place:]]


def damaged(events: list[Event], name: str, at: int, seed: int) -> list[Event] | None:
    """Return a recording with one damaged event, or None if the damage does not fit the event."""
    rng = Random(seed)
    if name.startswith("event: moved"):
        if events[at].kind in ("device", "begin", "end", "finish"):
            return None
        return _swap(events, at, rng.choice((-1, 1)) * rng.randrange(1, 20))
    if name == "write: lost":
        return _lost(events, at)
    new = (GENTLE | ROUGH)[name](events[at], rng)
    return None if new is None else [*events[:at], *new, *events[at + 1 :]]


def _lost(events: list[Event], at: int) -> list[Event] | None:
    """Return a recording without a write of a register and its answer."""
    if events[at].kind != "begin" or not events[at].values[0]:
        return None
    later = range(at + 1, len(events))
    end = next((n for n in later if events[n].kind == "end" and events[n].values[0]), None)
    return None if end is None else [*events[:at], *events[at + 1 : end], *events[end + 1 :]]


NAMES = (*GENTLE, *ROUGH, "event: moved", "write: lost")


class _Found(Exception):
    """The first finding of a damaged recording."""


def verdict(recording: Recording, name: str, at: int, seed: int) -> tuple[str, int] | None:
    """Return key and checksum of the first finding in a recording with one damaged event.

    Another replay must have decoded its flits.

    Returns:
        The key, "none" without a finding, with the checksum of the text; None if the damage does
        not fit the event.
    """
    events = damaged(recording.events, name, at, seed)
    if events is None:
        return None
    replay = EventReplay(recording, covered=False)

    def found(text: str) -> None:
        raise _Found(getattr(text, "key", text), checksum(text))

    replay.on_error = found
    try:
        replay.play(events)
    except _Found as first:
        return first.args[0], first.args[1]
    except Exception as error:
        return f"{type(error).__name__}: {error}", 0
    return "none", 0


def storm(recording: Recording, seed: int, share: float = 0.05) -> Summary:
    """Return the summary of a recording with many damaged events, which go on after a finding."""
    rng = Random(seed)
    names = list(GENTLE)
    events: list[Event] = []
    for event in recording.events:
        new = None
        if rng.random() < share:
            new = GENTLE[rng.choice(names)](event, rng)
        events += [event] if new is None else new
    return watched(recording, events)


# Files: the recordings, and what is derived from them.


class Derived(NamedTuple):
    """Everything that is derived from all recordings.

    Attributes:
        summaries: Summary by name of the recording; of a storm, with its seed.
        verdicts: Damages: recording, name, place, seed, and the two parts of the verdict.
    """

    summaries: dict[str, Summary]
    verdicts: list[tuple[str, str, int, int, str, int]]


def summaries(recording: Recording) -> dict[str, Summary]:
    """Return the summaries of a recording: as it is, and in each of its storms."""
    found = {recording.name: watched(recording, recording.events)}
    if recording.name in ALONE:
        found[f"{recording.name} blocks"] = blocks(recording)
    return found | {f"{recording.name} storm {n}": storm(recording, n) for n in range(STORMS)}


def stored() -> Derived:
    """Return what was derived when the recordings were made."""
    found = Derived({}, [])
    for text in lzma.decompress(DERIVED.read_bytes()).decode().splitlines():
        line = parse_json(text)
        if len(line) == 2:
            found.summaries[line[0]] = line[1]
        else:
            found.verdicts.append(tuple(line))
    return found


def derive(every: Sequence[Recording], tries: int) -> Derived:
    """Return what the checkers derive now, with one damage for each different verdict.

    Of several the one is kept that takes the least time.

    Args:
        every: Recordings.
        tries: Number of places of each recording at which each damage is tried.
    """
    found = Derived({f"drawn {seed}": drawn(seed) for seed in range(DRAWN)}, [])
    kept: dict[tuple[str, str], tuple[int, tuple[str, str, int, int, str, int]]] = {}
    for recording in every:
        found.summaries.update(summaries(recording))
        count = len(recording.events)
        rng = Random(count)
        for name in NAMES:
            for _ in range(tries):
                at, seed = rng.randrange(1, count), rng.getrandbits(16)
                said = verdict(recording, name, at, seed)
                if said is None:
                    continue
                events, old = count if said[0] == "none" else at, kept.get((name, said[0]))
                if old is None or events < old[0]:
                    kept[name, said[0]] = events, (recording.name, name, at, seed, *said)
    found.verdicts.extend(one for _, one in kept.values())
    return found


def write(path: Path, lines: Iterable[object]) -> None:
    """Write lines of JSON to a compressed file."""
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path.write_bytes(lzma.compress(text.encode(), preset=9))


def record(source: RecordedTest) -> list[Any]:
    """Run a test on Icarus, and return the events of one of its cases."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        words = [source.test, "--build", source.build, "--scale", str(source.scale)]
        words += ["--seed", str(source.seed), "--sim", "icarus", "--no-rerun", "--jobs", "1"]
        env = {**os.environ, "NF_RECORD": str(path)}
        subprocess.run([Path(sys.executable).with_name("nf"), "run", *words], env=env, check=True)
        lines = [parse_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
    starts = [at for at, line in enumerate(lines) if line[0] == "device"]
    begin, end = [*starts, len(lines)][source.case : source.case + 2]
    return lines[begin:end]


def main(words: Sequence[str]) -> None:
    """Record the runs named in `words` (or `all`) anew, then derive everything anew.

    Without words the stored recordings are kept. A line per run says whether it has changed.
    """
    runs = {one.name: [*one.lines] for one in recordings()} if RUNS.is_file() else {}
    for name, source in RECORDED.items():
        if name in words or "all" in words:
            was, runs[name] = runs.get(name), record(source)[:MOST]
            say(f"{name}: {'the events that were stored' if runs[name] == was else 'changed'}")
    kept = [(name, runs[name]) for name in RECORDED if name in runs]
    write(RUNS, (line for name, lines in kept for line in [["run", name], *lines]))
    found = derive(recordings(), TRIES)
    write(DERIVED, [*found.summaries.items(), *found.verdicts])
    say(f"{len(kept)} recordings, {len(found.summaries)} summaries, {len(found.verdicts)} damages")


if __name__ == "__main__":
    main(sys.argv[1:])
