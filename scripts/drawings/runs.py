# SPDX-License-Identifier: Apache-2.0
"""Drawings of short runs: a link-level retry, epochs of a line, ordered sums, racing requests.

Each runs the models of the suite and draws their states and answers.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink, HostLink, LinkPartner
from cocotbext.cxl.wire.control import RetryAck, RetryReq, decode_control
from cocotbext.cxl.wire.crc import PAYLOAD_MASK
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SReq, M2SRwD, NdrOp, ReqOp, RwdOp
from models.device import DeviceModel
from models.fp32 import ordered_sum
from models.line_packing import pack_fp32
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig
from scripts.common.errors import NfError
from scripts.drawings.front import PARAMETER, STEP, gradients
from scripts.drawings.sheet import BLUE, FILLS, INK, PALE, RED, Box, Sheet
from verif.scoreboard.linearize import Linearizer, State
from verif.scoreboard.operations import Op

# ---- link-level retry -------------------------------------------------------------------------
_DELAY, _WRITES, _BAD = 3, 3, 2  # clocks of the wire; writes of the host; the damaged flit
_ROW = 17  # height of a clock, in pixels


class RetryRun:
    """Run of a host and a device with link-level retry; one flit of the host is damaged.

    Attributes:
        sent: clock, sender (0: host) and name of each flit, from the first write on.
        states: clock, end and states of LRSM and RRSM, at each change.
        damaged: clock in which the damaged flit is sent, -1 before.
        clock: clocks of the run.
    """

    def __init__(self) -> None:
        config = LinkConfig(retry=True, flush_retimer=2)
        self.host, self.device = HostLink(config), DeviceLink(replace(config))
        self._links: tuple[LinkPartner[Any, Any], ...] = self.host, self.device
        self.sent: list[tuple[int, int, str]] = []
        self.states: list[tuple[int, int, str]] = []
        self.damaged, self.clock = -1, 0
        self._wires: list[deque[tuple[int, int] | None]] = [deque([None] * _DELAY) for _ in "hd"]
        self._numbers: dict[int, int] = {}
        self._now = ["", ""]
        while not (self.host.active and self.device.active and self.host.credits.data):
            self._step()
        for tag in range(_WRITES):
            self.host.send(M2SRwD(RwdOp.MEM_WR, tag, 64 * tag))
        self.first = self.clock
        self.sent.clear()
        self.states.clear()
        answered = 0
        while answered < _WRITES:
            answered += self._step()
            if self.clock > 1000:
                raise NfError("the run of a retry does not end.")

    def _step(self) -> int:
        """Run one clock and return the number of answers that reach the host."""
        for end, link in enumerate(self._links):
            wire = link.next_flit()
            if wire is not None:
                name = self._name(wire[1])
                self.sent.append((self.clock, end, name))
                if name == f"protocol {_BAD}" and end == 0 and self.damaged < 0:
                    self.damaged, wire = self.clock, (wire[0], wire[1] ^ 1 << 300)
            self._wires[end].append(wire)
        down, up = (wire.popleft() for wire in self._wires)
        for request in self.device.receive(*down) if down else ():
            self.device.send(S2MNDR(NdrOp.CMP, request.tag))
        answers = self.host.receive(*up) if up else []
        for end, link in enumerate(self._links):
            states = f"{link.retry.lrsm.name}, {link.retry.rrsm.name}"
            if states != self._now[end]:
                self._now[end] = states
                self.states.append((self.clock, end, states))
        self.clock += 1
        return len(answers)

    def _name(self, flit: int) -> str:
        """Return the kind of a flit; a flit that is sent again keeps its number."""
        if flit & 1:
            found, _ = decode_control(flit & PAYLOAD_MASK)
            more = f" ESeq {found.eseq}" if isinstance(found, RetryReq | RetryAck) else ""
            return f"{type(found).__name__}{more}"
        return f"protocol {self._numbers.setdefault(flit, len(self._numbers) + 1)}"


def retry_sequence() -> Sheet:
    """Draw the flits between host and device while a damaged flit is repeated."""
    run = RetryRun()
    sheet = Sheet("Flits between host and device around a damaged flit, clock by clock")
    title = f"A retry: flit {_BAD} of the host is damaged on the wire ({_DELAY} clocks each way)"
    sheet.text(30, 30, title, "title")
    sheet.text(110, 58, "host: LRSM, RRSM", "head", "middle")
    sheet.text(850, 58, "device: LRSM, RRSM", "head", "middle")
    sides, top = (330, 630), 74

    def height(clock: float) -> float:
        return top + _ROW * (clock - run.first)

    bottom = height(run.clock) + 10
    for x, name in zip(sides, ("host", "device"), strict=True):
        sheet.text(x, 58, name, "head", "middle")
        sheet.line(x, top - 8, x, bottom, 'stroke-width="2"')
    for clock, end, name in run.sent:
        if clock + _DELAY > run.clock:  # on the wire at the end
            continue
        bad = clock == run.damaged and end == 0
        x1, x2 = sides[end], sides[1 - end]
        y1, y2 = height(clock), height(clock + _DELAY)
        sheet.line(x1, y1, x2, y2, f'stroke-width="{2 if bad else 0.8}" marker-end="url(#tip)"')
        words = f"{name} (damaged)" if bad else name
        shift = 10 if end else -10
        sheet.text(x1 + shift, y1 + 4, words, "small", "start" if end else "end")
    for clock, end, states in run.states:
        x = (30, 770)[end]
        sheet.text(x, height(clock) + 4, states, "small")
    sheet.height = bottom + 14
    return sheet


# ---- epochs of a line ----------------------------------------------------------------------------
_REGION = RegionConfig(1 << 40, 0x10000, 2, 3, Mode.G_BINARY)
_PARAMS = DeviceParams(mem_lines_log2=20)
_SHOWN = 16  # elements of a line


def _line(seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(64)


def _write(worker: int, data: bytes) -> M2SRwD:
    return M2SRwD(RwdOp.MEM_WR, worker, _REGION.address(worker, 0), data=data)


def _vote(tag: int) -> M2SReq:
    return M2SReq(ReqOp.MEM_RD, tag, _REGION.address(0, 0))


def epochs() -> Sheet:
    """Draw what INFO of a line says after each event of two epochs, and the vote."""
    model = DeviceModel(_PARAMS)
    lines = [_line(seed) for seed in range(3)]
    events = ["commit epoch 7", "write 0", "write 1", "write 1", "write 2"]
    events += ["commit epoch 8", "write 2", "close", "write 0"]
    sheet = Sheet("State of one line after each event of two epochs")
    sheet.text(30, 30, "One line of a region of 3 workers in G_BINARY, after each event", "title")
    columns = (30, 270, 340, 440, 540, 580, 760)
    heads = ("event", "epoch", "generation", "bitmap", "m", "flags", f"vote, {_SHOWN} elements")
    for x, head in zip(columns, heads, strict=True):
        sheet.text(x, 60, head, "head")
    for row, event in enumerate(events):
        y, words = 88 + 30 * row, event.split()
        before = model.counters.copy()
        if words[0] == "commit":
            model.commit(0, _REGION, int(words[2]))
        elif words[0] == "close":
            model.close(0)
        else:
            model.step(_write(int(words[1]), lines[int(words[1])]))
        counted = [name for name in ("DUPLICATE", "LATE") if model.counters[name] > before[name]]
        info = model.line_info(0, 0)
        note = {"write": "worker {0} contributes", "close": "the region is closed"}
        text = note.get(words[0], event).format(*words[1:])
        flags = [name for name in ("complete", "closed") if getattr(info, name)]
        cells = (text, info.epoch, info.generation, "", info.m, ", ".join([*flags, *counted]))
        for x, cell in zip(columns, cells, strict=False):
            sheet.text(x, y, str(cell))
        for worker in range(_REGION.workers):
            fill = BLUE if info.bitmap >> worker & 1 else "#ffffff"
            sheet.rect(Box(columns[3] + 20 * worker, y - 12, 16, 16), fill, f'stroke="{PALE}"')
        answer = model.step(_vote(row))
        assert isinstance(answer, S2MDRS)
        for element in range(_SHOWN if info.m else 0):
            minus = answer.data[element // 8] >> element % 8 & 1
            sheet.rect(Box(columns[6] + 10 * element, y - 10, 9, 12), RED if minus else BLUE)
        if not info.m:
            sheet.text(columns[6], y, "zeros: nobody has voted", "pale")
    y = 88 + 30 * len(events) + 6
    sheet.text(30, y, "bitmap: worker 0 at the left; vote: blue is plus, red is minus", "pale")
    sheet.height = y + 20
    return sheet


# ---- racing requests ---------------------------------------------------------------------------
# Name, clock of the request, clock of the response.
_RACE = (("w0", 0, 4), ("w1", 2, 8), ("vote A", 3, 7), ("w2", 5, 11), ("vote B", 9, 12))
_TAKEN = ("w0", "w1", "vote A", "w2", "vote B")  # order in which the device took them


def race() -> tuple[list[Op], list[Op], int, int]:
    """Let a device take racing requests in an order, and search for an order that explains it.

    Returns:
        The operations, the order that was found, the number of orders that keep the order of
        requests that do not overlap, and how many of them explain every answer.

    Raises:
        NfError: no order was found.
    """
    model = DeviceModel(_PARAMS)
    model.commit(0, _REGION, 1)
    ops = {}
    for tag, (name, start, end) in enumerate(_RACE):
        msg = _write(int(name[1]), _line(int(name[1]))) if name[0] == "w" else _vote(tag)
        access = model.decode(msg.with_tag(tag))
        ops[name] = Op(
            *(msg.with_tag(tag), start, access, model.line_key(msg)), end=end, read=name[0] != "w"
        )
    every = list(ops.values())
    key, clean = every[0].key, model.snapshot(every[0].key)
    for name in _TAKEN:
        ops[name].response = model.step(ops[name].msg)
    model.restore(key, clean)
    search = Linearizer(model, key, every, 1000)
    reached = search.run({0: [State(clean)]}, 31, 31)
    if not reached:
        raise NfError("no order explains the racing requests.")
    found = [op for op, *_ in reached[31][0].steps()]
    legal = explained = 0
    for order in itertools.permutations(every):
        if any(b.end < a.start for a, b in itertools.combinations(order, 2)):
            continue
        legal += 1
        model.restore(key, clean)
        # Every request is executed, also after one whose answer differs.
        wrong = [model.step_result(op.msg).differences(op.response) for op in order]
        explained += not any(wrong)
    return every, found, legal, explained


def linearize() -> Sheet:
    """Draw racing requests on one line, and an order that explains every answer."""
    every, found, legal, explained = race()
    sheet = Sheet(
        "Racing requests on one line and an order that explains their answers", height=330
    )
    sheet.text(30, 30, "Five requests on one line: from request to response, in clocks", "title")
    for row, ((name, start, end), op) in enumerate(zip(_RACE, every, strict=True)):
        y, scale = 60 + 34 * row, 50
        text = f"{name}: worker {name[1]} contributes" if name[0] == "w" else f"{name} is read"
        sheet.text(30, y + 15, text)
        box = Box(240 + scale * start, y, scale * (end - start), 22)
        sheet.rect(box, FILLS["amber" if op.read else "blue"], f'stroke="{INK}" rx="4"')
        sheet.text(box.x + 6, y + 15, f"{start} to {end}", "small")
        place = 1 + next(at for at, one in enumerate(found) if one is op)
        sheet.text(box.x + box.w - 6, y + 15, f"taken as no. {place}", "small", "end")
    y = 60 + 34 * len(every) + 26
    names = [_RACE[every.index(op)][0] for op in found]
    sheet.text(30, y, "order that the scoreboard found: " + " < ".join(names), "head")
    sheet.text(30, y + 24, f"{legal} orders keep the order of requests that do not overlap.")
    sheet.text(30, y + 46, f"{explained} of them give the votes that the device answered.")
    return sheet


# ---- ordered sum ---------------------------------------------------------------------------------
_ORDERS = 200


def ordered() -> Sheet:
    """Draw the partial sums of one element in worker order, and the sums of other orders."""
    values = gradients()
    lines = np.stack([pack_fp32(one) for one in values])
    count = values.shape[1]

    def sums(order: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        return ordered_sum(lines[list(order)]).view("<u4").reshape(-1)[:count]

    draw = np.random.default_rng(1)
    own = sums(range(8))
    others = np.stack([sums(draw.permutation(8).tolist()) for _ in range(_ORDERS)])
    distinct = np.array([len(np.unique(column)) for column in np.vstack([own, others]).T])
    element = int(distinct.argmax())
    sheet = Sheet(
        "Partial sums of one element in worker order, and sums in other orders", height=330
    )
    title = f"FP32 sum of one element of {PARAMETER} (step {STEP}) over 8 workers"
    sheet.text(30, 30, title, "title")
    for worker in range(8):
        x = 30 + 114 * worker
        partial = sums(range(worker + 1))[element : element + 1]
        value = values[worker, element]
        note = f"{value:+.3e}\nsum {int(partial[0]):08x}"
        sheet.box(Box(x, 56, 100, 66), f"worker {worker}", note)
        if worker:
            sheet.line(x - 14, 89, x - 2, 89, 'stroke-width="1.4" marker-end="url(#tip)"')
    total = own[element : element + 1].view(np.float32)[0]
    sheet.text(30, 156, f"worker order: {int(own[element]):08x} = {total:.9e}", "head")
    kinds, times = np.unique(others[:, element], return_counts=True)
    often = np.argsort(-times, kind="stable")[:9]
    text = (
        f"{_ORDERS} random orders of the same 8 values give {len(kinds)} sums; the most frequent:"
    )
    sheet.text(30, 184, text)
    for row, at in enumerate(often):
        column, line = divmod(row, 3)
        value = kinds[at : at + 1].view(np.float32)[0]
        text = f"{int(kinds[at]):08x} = {value:.9e}, {times[at]} times"
        sheet.text(30 + 310 * column, 208 + 20 * line, text, "pale")
    share = 100 * float(np.mean(distinct > 1))
    text = f"{share:.0f} % of the {count:,} elements have more than one sum: only a fixed order"
    sheet.text(30, 290, text)
    sheet.text(30, 310, "gives the same bits on every run.")
    return sheet
