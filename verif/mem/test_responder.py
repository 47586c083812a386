# SPDX-License-Identifier: Apache-2.0
"""Laws of the memory under drawn traffic: protocol, data, errors, order and latency, on plain pins.

A manager drives the port by hand, clock by clock, and the monitor of the agent checks it: neither a
simulator nor a device is needed.
"""

from collections import Counter, deque
from itertools import count, pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from verif.axi import AXI4, Resp
from verif.mem.memory_agent import AxiRules, MemMonitor
from verif.mem.memory_config import FULL_STROBE, Background, MemBeat, MemConfig
from verif.mem.memory_timing import MemoryTiming
from verif.mem.responder import MemResponder
from verif.mem.store import MemStore

NUMBERS = count()
CHANNELS = {
    "aw": "awid awaddr awlen awsize awburst",
    "w": "wdata wstrb wlast wuser",
    "ar": "arid araddr arlen arsize arburst",
}
LINES = 64
BAD_READ, BAD_WRITE = 5, 9


class Port:
    """Memory with its monitor on plain pins, and a manager that sends bursts one after the other.

    Args:
        seed: Seed of the memory and of READY.
        settings: Fields of `MemConfig`.
    """

    def __init__(self, seed: int, **settings: Any) -> None:
        self.rng = Random(seed)
        self.cfg = MemConfig(
            lines_log2=10, read_error_lines={BAD_READ}, write_error_lines={BAD_WRITE}, **settings
        )
        self.pins = SimpleNamespace(**{name: SimpleNamespace(value=0) for name in AXI4.split()})
        self.store = MemStore(Background.GARBAGE, seed)
        self.rules = AxiRules(10, 1000)
        self.memory = MemResponder(f"responder_{next(NUMBERS)}", None)
        self.monitor = MemMonitor(f"port_{next(NUMBERS)}", None)
        for one in (self.memory, self.monitor):
            one.build_phase()
            one.pins = self.pins  # type: ignore[attr-defined]
        self.memory.cfg, self.memory.store = self.cfg, self.store
        self.memory.rng.seed(seed)
        self.monitor.rules = self.rules
        self.monitor.start_of_simulation_phase()
        self.beats: list[MemBeat] = []
        self.monitor.ap.write = self.beats.append  # type: ignore[method-assign]
        self.queues: dict[str, deque[tuple[int, ...]]] = {name: deque() for name in CHANNELS}
        self.memory._quiet()
        self.stalled: Counter[str] = Counter()
        self.held = 0.0  # probability that the manager does not take an answer

    def write(self, axi_id: int, line: int, *beats: tuple[int, int, int]) -> None:
        """Queue a burst of (data, strobe, poison)."""
        self.queues["aw"].append((axi_id, 64 * line, len(beats) - 1, 6, 1))
        for number, (data, strobe, poison) in enumerate(beats, 1):
            self.queues["w"].append((data, strobe, int(number == len(beats)), poison))

    def read(self, axi_id: int, line: int, beats: int = 1) -> None:
        self.queues["ar"].append((axi_id, 64 * line, beats - 1, 6, 1))

    def clock(self) -> None:
        """Give one clock: the monitor and the memory sample, then the manager drives."""
        pins, level = self.pins, {name: one.value for name, one in vars(self.pins).items()}
        self.monitor._step()
        self.memory._step()
        for name, payload in CHANNELS.items():
            if level[f"{name}valid"] and not level[f"{name}ready"]:
                self.stalled[name] += 1
                continue
            queue = self.queues[name]
            vars(pins)[f"{name}valid"].value = int(bool(queue))
            for signal, value in zip(
                payload.split(), queue.popleft() if queue else (), strict=False
            ):
                vars(pins)[signal].value = value
        for name in ("bready", "rready"):
            vars(pins)[name].value = int(self.rng.random() >= self.held)

    def drain(self) -> list[MemBeat]:
        """Clock until everything is answered, and return the beats since the last call."""
        for _ in range(3000):
            self.clock()
            valid = any(getattr(self.pins, f"{name}valid").value for name in CHANNELS)
            if self.memory.idle and not valid and not any(self.queues.values()):
                self.clock()
                break
        assert self.memory.waiting == ([], [])
        assert self.rules.outstanding == 0, "the memory is idle with a burst under way"
        assert self.rules.errors == []
        found, self.beats[:] = list(self.beats), []
        return found


@pytest.mark.parametrize("seed", range(6))
def test_drawn_bursts(seed: int) -> None:
    """Check data, poison, byte enables and responses of bursts that share no line."""
    rng = Random(seed)
    stalls: dict[str, Any] = {
        f"{name}_stall": rng.choice((0.0, 0.3)) for name in ("aw", "w", "ar", "b", "r")
    }
    port = Port(
        *(seed,), latency=(1, 9), reorder=bool(seed & 1), interleave=bool(seed & 2), **stalls
    )
    port.held = rng.choice((0.0, 0.5))
    model = {line: port.store.background_line(line) for line in range(LINES)}
    poisoned: set[int] = set()
    for _ in range(12):
        starts = rng.sample(range(0, LINES, 4), 6)
        expected = {}
        for line in starts:
            axi_id, beats = rng.randrange(3), rng.randrange(1, 5)
            if rng.random() < 0.5:
                port.read(axi_id, line, beats)
                expected.update(
                    {(False, at): (model[at], at in poisoned) for at in range(line, line + beats)}
                )
                continue
            strobes = [rng.choice((FULL_STROBE, rng.getrandbits(64))) for _ in range(beats)]
            data = [(rng.getrandbits(512), strobe, rng.random() < 0.2) for strobe in strobes]
            port.write(axi_id, line, *data)
            bad = BAD_WRITE in range(line, line + beats)
            for at, (word, strobe, poison) in enumerate(data, line):
                expected[True, at] = (word, poison)
                if bad:
                    continue
                mask = sum(0xFF << 8 * n for n in range(64) if strobe >> n & 1)
                model[at] = model[at] & ~mask | word & mask
                if poison or strobe == FULL_STROBE:
                    (poisoned.add if poison else poisoned.discard)(at)
        for beat in port.drain():
            word, poison = expected.pop((beat.write, beat.line))
            burst = range(beat.line & ~3, beat.line & ~3 | 3)
            if not beat.write and beat.line == BAD_READ:
                assert beat.error
                assert beat.data == int.from_bytes(b"\xe7" * 64, "little")
                continue
            assert (beat.data, beat.poison) == (word, poison)
            assert beat.error == (beat.write and BAD_WRITE in burst and beat.resp != Resp.OKAY)
        assert expected == {}, "every beat is answered"
    assert all(port.stalled[name] > 0 for name in CHANNELS if stalls[f"{name}_stall"])


def test_an_error_of_a_burst() -> None:
    for line, wrong in ((BAD_WRITE - 2, False), (BAD_WRITE - 1, True), (BAD_WRITE, True)):
        port = Port(1)
        port.write(0, line, (1, FULL_STROBE, 0), (2, FULL_STROBE, 0))
        assert [beat.error for beat in port.drain()] == [wrong, wrong]
        assert (port.store.read(line)[0] == 1) != wrong, "what is refused is not stored"
    for rate, wrong in ((0.0, False), (1.0, True)):
        port = Port(1, read_error_rate=rate, write_error_rate=rate, error_resps=(Resp.DECERR,))
        port.write(0, 1, (1, FULL_STROBE, 0))
        port.read(1, 2)
        assert [beat.resp == Resp.DECERR for beat in port.drain()] == [wrong, wrong]


@pytest.mark.parametrize("latency", [1, 4, 20])
def test_latency_and_beats(latency: int) -> None:
    """Check that an answer comes `latency` clocks after its request, and a beat `beat` after it."""
    for beat in (1, 3):
        port = Port(2, latency=(latency, latency), beat=beat)
        port.read(0, 16, 3)
        first, *more = (one.clocks for one in port.drain())
        assert first == latency + 1
        assert more == [first + beat, first + 2 * beat]
        port.write(0, 16, (1, FULL_STROBE, 0))
        assert [one.clocks for one in port.drain()] == [latency + 1]


@pytest.mark.parametrize("beat", [1, 2, 5])
def test_write_data_is_taken_at_its_rate(beat: int) -> None:
    port = Port(2, latency=(4, 4), beat=beat)
    port.write(0, 16, *[(1, FULL_STROBE, 0)] * 4)
    assert [one.clocks for one in port.drain()] == [5 + 3 * beat] * 4


@pytest.mark.parametrize("axi_id", [0, 1])
def test_a_later_read_of_one_id_sees_no_older_data(axi_id: int) -> None:
    """Check reads of a line that is written at the same time, in order of their answers."""
    for seed in range(20):
        port = Port(seed, latency=(1, 12))
        port.write(1, 16, (0, FULL_STROBE, 0))
        port.drain()
        for number in range(1, 12):
            port.write(1, 16, (number, FULL_STROBE, 0))
            port.read(axi_id, 16)
        seen = [one.data for one in port.drain() if not one.write]
        assert seen == sorted(seen)
        assert len(set(seen)) > 2


@pytest.mark.parametrize("reorder", [False, True])
@pytest.mark.parametrize("interleave", [False, True])
def test_order_of_answers(reorder: bool, interleave: bool) -> None:
    """Check that answers of one ID keep their order, and that others leave it when they may."""
    overtaken = mixed = 0
    for seed in range(8):
        port = Port(seed, latency=(1, 12), reorder=reorder, interleave=interleave)
        for number in range(6):
            port.read(number % 2, 4 * number + 20, 2)
        beats = port.drain()
        for axi_id in (0, 1):
            own = [one.line for one in beats if one.axi_id == axi_id]
            assert own == sorted(own)
        lines = [one.line for one in beats]
        overtaken += lines != sorted(lines)
        mixed += any(a.axi_id != b.axi_id and not a.last for a, b in pairwise(beats))
    assert bool(overtaken) == reorder
    assert bool(mixed) == (interleave and reorder)


def test_a_reset_forgets_what_waits() -> None:
    port = Port(3, latency=(50, 50))
    port.read(0, 8)
    port.write(1, 12, (1, FULL_STROBE, 0))
    for _ in range(5):
        port.clock()
    assert not port.memory.idle
    assert port.memory.waiting == ([0], [1])
    port.memory._reset()
    assert port.memory.idle
    names = ("awready", "wready", "arready", "bvalid", "rvalid")
    assert [getattr(port.pins, name).value for name in names] == [0] * 5


def test_backgrounds() -> None:
    for background, want in ((Background.ZEROS, 0), (Background.ONES, (1 << 512) - 1)):
        assert MemStore(background, 1).read(3) == (want, False)
    garbage = {MemStore(Background.GARBAGE, seed).read(line) for seed in (1, 2) for line in (3, 4)}
    assert len(garbage) == 4


def test_the_memory_that_is_printed_is_the_one_that_is_driven() -> None:
    """Check that a MemoryTiming configures the signal-level memory model, and its printed text."""
    timing, config = MemoryTiming(48, beat=2, stall=25), MemConfig()
    timing.apply(config)
    assert (config.latency, config.beat) == ((48, 48), 2)
    assert config.aw_stall == config.w_stall == config.ar_stall == 0.25
    assert str(timing) == "memory latency 48, 2 clocks a beat, 25 % stalled"
    assert str(MemoryTiming()) == "memory latency 100"
    assert str(timing.at(3)) == "memory latency 3, 2 clocks a beat, 25 % stalled"
    for name, least, most in (("latency", 1, 10_000), ("beat", 1, 64), ("stall", 0, 90)):
        for value in (least, most):
            MemoryTiming(**{name: value})
        for value in (least - 1, most + 1):
            with pytest.raises(ValueError, match=f"memory {name} {value} is not {least} to {most}"):
                MemoryTiming(**{name: value})
