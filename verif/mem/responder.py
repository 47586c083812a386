# SPDX-License-Identifier: Apache-2.0
"""Subordinate side of the device-memory port.

One loop does one step per cycle. When nothing is pending it sleeps until the device raises a VALID,
so that an idle memory costs no simulation time. AXI gives no order between reads and writes, nor
between IDs: the moment at which a write takes effect and at which a read samples is therefore drawn
at random within what the protocol leaves open, so that a device which relies on one order fails.
"""

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

from pyuvm import uvm_component

from verif.axi import Resp, clock_port
from verif.mem.memory_config import MemConfig
from verif.mem.store import MemStore

_ERROR_DATA = int.from_bytes(bytes([0xE7] * 64), "little")


@dataclass(slots=True)
class _Write:
    axi_id: int
    line: int
    beats: int
    data: list[tuple[int, int, bool]] = field(default_factory=list)
    ready_at: int = 0
    landed: bool = False
    resp: int = 0


@dataclass(slots=True)
class _Read:
    axi_id: int
    line: int
    beats: int
    ready_at: int
    sampled: list[tuple[int, bool]] | None = None
    sent: int = 0


_Transfer = TypeVar("_Transfer", _Read, _Write)


def _known(pin: Any) -> int:
    """Return the value of a pin of a valid channel.

    Raises:
        AssertionError: The pin is X or Z, which is a fault of the device.
    """
    try:
        return int(pin.value)
    except ValueError:
        said = f"{pin._name} holds X or Z while its channel is valid: {pin.value}"
        raise AssertionError(said) from None


class MemResponder(uvm_component):
    """Memory at the device-memory port: answers reads and writes with latency, stalls and errors.

    The agent sets `pins`, `cfg` and `store` before the run phase. `read_fails`, `write_fails` and
    `next_read` may be overridden for another behaviour.
    """

    pins: SimpleNamespace
    cfg: MemConfig
    store: MemStore

    def build_phase(self) -> None:
        self.rng = random.Random(0)
        self.cycle = 0
        self._aw: deque[_Write] = deque()
        self._w: deque[tuple[int, int, bool]] = deque()
        self._b: deque[_Write] = deque()
        self._r: deque[_Read] = deque()
        self._b_out: _Write | None = None
        self._r_out: _Read | None = None
        self._w_free = self._r_free = 0  # clock from which a beat may move
        self._level: dict[str, int] = {}

    # -- pins ---------------------------------------------------------------------------------
    def _set(self, name: str, value: int) -> None:
        """Drive the control pin `name`, if its value changes."""
        if self._level.get(name) != value:
            self._level[name] = value
            getattr(self.pins, name).value = value

    def _quiet(self) -> None:
        for name in ("awready", "wready", "arready", "bvalid", "rvalid"):
            self._set(name, 0)
        for name in ("bid", "bresp", "rid", "rdata", "rresp", "rlast", "ruser"):
            getattr(self.pins, name).value = 0

    async def run_phase(self) -> None:
        self._quiet()
        await clock_port(self.pins, self._step, self._reset)

    def _reset(self) -> None:
        for queue in (self._aw, self._w, self._b, self._r):
            queue.clear()  # type: ignore[attr-defined]
        self._b_out = self._r_out = None
        self._quiet()

    def _step(self) -> bool:
        """Sample the pins of one cycle, then set those of the next cycle; return False if all is
        idle.
        """
        self.cycle += 1
        pins, level = self.pins, self._level
        awv, wv, arv = (pins.awvalid.value == 1, pins.wvalid.value == 1, pins.arvalid.value == 1)
        if awv and level.get("awready"):
            self._aw.append(
                _Write(_known(pins.awid), _known(pins.awaddr) >> 6, _known(pins.awlen) + 1)
            )
        if wv and level.get("wready"):
            poison = bool(_known(pins.wuser) & 1)
            self._w.append((_known(pins.wdata), _known(pins.wstrb), poison))
            self._w_free = self.cycle + self.cfg.beat - 1
        if arv and level.get("arready"):
            self._accept_read()
        if self._b_out is not None and pins.bready.value == 1:
            self._b_out = None
        if (read := self._r_out) is not None and pins.rready.value == 1:
            read.sent += 1
            if read.sent == read.beats:
                self._r.remove(read)
            self._r_out = None
            self._r_free = self.cycle + self.cfg.beat - 1
        self._gather_writes()
        self._drive_b()
        self._drive_r()
        rng, cfg = self.rng, self.cfg
        self._set("awready", int(not cfg.aw_stall or rng.random() >= cfg.aw_stall))
        ready = not cfg.w_stall or rng.random() >= cfg.w_stall
        self._set("wready", int(ready and self._w_free <= self.cycle))
        self._set("arready", int(not cfg.ar_stall or rng.random() >= cfg.ar_stall))
        return bool(awv or wv or arv or not self.idle)

    def _ready(self, queue: Iterable[_Transfer]) -> list[_Transfer]:
        """Return the transfers of a queue that may be answered now.

        With `reorder` they are the oldest of each AXI ID, else only the oldest of all; each only
        after its latency.
        """
        seen: set[int] = set()
        ready: list[_Transfer] = []
        for transfer in queue:
            if transfer.axi_id in seen:
                continue
            seen.add(transfer.axi_id)
            if transfer.ready_at <= self.cycle:
                ready.append(transfer)
            if not self.cfg.reorder:
                break
        return ready

    # -- reads --------------------------------------------------------------------------------
    def _accept_read(self) -> None:
        pins = self.pins
        axi_id, line, beats = _known(pins.arid), _known(pins.araddr) >> 6, _known(pins.arlen) + 1
        ready_at = self.cycle + self.rng.randint(*self.cfg.latency)
        read = _Read(axi_id, line, beats, ready_at)
        # A later read of one ID must not see older data than an earlier one.
        late = any(r.axi_id == axi_id and r.sampled is None for r in self._r)
        if not late and self.rng.random() < 0.5:
            self._sample(read)
        self._r.append(read)

    def _sample(self, read: _Read) -> None:
        read.sampled = [self.store.read(read.line + k) for k in range(read.beats)]

    def read_fails(self, line: int) -> bool:
        """Return whether a beat of a read, of line `line`, is answered with an error.

        It is if the line is one of `read_error_lines`, or by a draw with `read_error_rate`.
        """
        cfg = self.cfg
        return line in cfg.read_error_lines or (
            cfg.read_error_rate > 0 and self.rng.random() < cfg.read_error_rate
        )

    def next_read(self) -> _Read | None:
        """Return the read burst of which the next beat is sent, or None."""
        ready = self._ready(self._r)
        if not ready:
            return None
        started = [read for read in ready if read.sent]
        if started and not self.cfg.interleave:
            return started[0]
        return self.rng.choice(ready)

    def _drive_r(self) -> None:
        if self._r_out is not None:
            return
        cfg = self.cfg
        read = self.next_read() if self._r and self._r_free <= self.cycle else None
        if read is None or (cfg.r_stall and self.rng.random() < cfg.r_stall):
            self._set("rvalid", 0)
            return
        if read.sampled is None:
            self._sample(read)
        assert read.sampled is not None
        data, poison = read.sampled[read.sent]
        error = self.read_fails(read.line + read.sent)
        pins = self.pins
        pins.rid.value = read.axi_id
        pins.rdata.value = _ERROR_DATA if error else data
        # With an error the mark of poison means nothing.
        pins.ruser.value = self.rng.getrandbits(1) if error else int(poison)
        pins.rresp.value = int(self.rng.choice(cfg.error_resps) if error else Resp.OKAY)
        pins.rlast.value = int(read.sent + 1 == read.beats)
        self._set("rvalid", 1)
        self._r_out = read

    # -- writes -------------------------------------------------------------------------------
    def write_fails(self, lines: range) -> bool:
        """Return whether the write of a burst of lines is answered with an error.

        It is if a line is one of `write_error_lines`, or by a draw with `write_error_rate`.
        """
        cfg = self.cfg
        return any(line in cfg.write_error_lines for line in lines) or (
            cfg.write_error_rate > 0 and self.rng.random() < cfg.write_error_rate
        )

    def _gather_writes(self) -> None:
        while self._aw and self._w:
            write = self._aw[0]
            write.data.append(self._w.popleft())
            if len(write.data) < write.beats:
                continue
            self._aw.popleft()
            cfg = self.cfg
            error = self.write_fails(range(write.line, write.line + write.beats))
            write.resp = int(self.rng.choice(cfg.error_resps) if error else Resp.OKAY)
            write.ready_at = self.cycle + self.rng.randint(*cfg.latency)
            # Writes of one ID land in order.
            waiting = any(w.axi_id == write.axi_id and not w.landed for w in self._b)
            if not waiting and self.rng.random() < 0.5:
                self._land(write)
            self._b.append(write)

    def _land(self, write: _Write) -> None:
        write.landed = True
        for line, beat in enumerate(write.data if write.resp == Resp.OKAY else (), write.line):
            self.store.write(line, *beat)

    def _drive_b(self) -> None:
        if self._b_out is not None:
            return
        cfg = self.cfg
        stalled = not self._b or (cfg.b_stall and self.rng.random() < cfg.b_stall)
        ready = [] if stalled else self._ready(self._b)
        if not ready:
            self._set("bvalid", 0)
            return
        chosen = self.rng.choice(ready)
        if not chosen.landed:
            self._land(chosen)
        self._b.remove(chosen)
        self.pins.bid.value = chosen.axi_id
        self.pins.bresp.value = chosen.resp
        self._set("bvalid", 1)
        self._b_out = chosen

    @property
    def waiting(self) -> tuple[list[int], list[int]]:
        """Return the AXI IDs of accepted reads, and of accepted writes, without an answer on the
        pins.

        Each list is in the order of the addresses.
        """
        return [r.axi_id for r in self._r], [w.axi_id for w in (*self._b, *self._aw)]

    @property
    def idle(self) -> bool:
        """Return whether no transaction is pending in the memory."""
        return not (self._aw or self._w or self._b or self._r or self._b_out or self._r_out)
