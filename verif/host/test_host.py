# SPDX-License-Identifier: Apache-2.0
"""Tests of the C++ host against the independent Python link model, and of every rule it checks.

Python takes the place of the device at the pins of the host, cycle by cycle. The last tests are of
the memory (latency, beats, stalls), of the second stream, and of outputs that are X under Icarus.
"""

import ctypes
import random
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cocotbext.cxl.link.device_stub import DeviceStub, PlainMemory
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink
from cocotbext.cxl.wire.control import InitParam, Llcrd, RetryFrame, encode_control
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.flits import WireFlit
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SMessage, S2MMessage
from cocotbext.cxl.wire.packer import PackOptions
from models.line_packing import LINE_BYTES
from neuron_fabric.data import read_json
from scripts.build import bulk_build
from scripts.build.build_cache import once
from scripts.build.sources import collect
from scripts.common.paths import SIM_BUILDS
from scripts.common.records import FILELIST, TOP, BuildSpec, Edit
from verif.host.bulk_device import BulkFault
from verif.host.c_interface import OP, POISON, Block, CBlock, CMemory, Figures, Kind, operations
from verif.host.generated_sources import PINS, words

PAYLOAD = (1 << 512) - 1


HOST_LIBRARY = "libnf_host.so"


def build_host() -> Path:
    """Build a library of the C++ host alone, without the controller, and return its path.

    Raises:
        BuildError: The build failed.
        NfError: See `once`.
    """
    spec = BuildSpec("verilator", TOP, FILELIST)
    sources = collect(spec)

    def compile_host(target: Path) -> None:
        design = bulk_build.BulkDesign(spec, sources, target)
        host = bulk_build.host_sources("host_only.cpp")
        flags = (*bulk_build.COMPILE, *bulk_build.QUICK, design.include)
        design.run(*flags, "-shared", *host, "-o", HOST_LIBRARY)

    directory = SIM_BUILDS / f"bulk-host-{bulk_build.build_key(sources.key)}"
    once(directory, compile_host, [HOST_LIBRARY])
    return directory / HOST_LIBRARY


def _pins(library: Path) -> dict[str, Any]:
    """Return the pin structures of the generated nf_pins.h by name, with all pins 0."""
    out = {}
    for name, pins in read_json(library.with_name(PINS)).items():
        word = ctypes.c_uint32
        fields = [(pin, word * words(width) if width > 32 else word) for pin, width in pins]
        out[name] = type(name, (ctypes.Structure,), {"_fields_": fields})()
    return out


Change = Callable[[S2MMessage | None], S2MMessage | None]
"""Answer of the memory -> what the device sends."""


class Liar(PlainMemory):
    """Memory that replaces one answer, number ``at`` counted from 0, by ``change(answer)``."""

    def __init__(self, at: int, change: Change) -> None:
        super().__init__()
        self._at, self._change = at, change

    def respond(self, message: M2SMessage) -> S2MMessage | None:
        """Answer a request, rightly unless its turn has come."""
        answer = super().respond(message)
        self._at -= 1
        return self._change(answer) if self._at == -1 else answer


Damage = Callable[[WireFlit], WireFlit]
"""Flit -> what the host sees."""


class Wire:
    """C++ host in the library, connected to the link model of `cocotbext.cxl` with a plain memory.

    Args:
        seed: Seed of all draws of the link model.
        dense: Whether flits of the device are packed densely.
        grant: Credits that the device grants.
        host_grant: Credits that the host grants.
        memory: Timing of the memory of the host.
        clocks: Cycles to simulate, after 40 of which the link is up.

    Attributes:
        device: Pins that are inputs of the host.
        to: Pins that are its outputs.
    """

    def __init__(
        self,
        seed: int = 1,
        dense: bool = True,
        grant: int = 32,
        host_grant: int = 64,
        memory: CMemory | None = None,
        clocks: int = 0,
    ) -> None:
        library = build_host()
        self._library = ctypes.CDLL(str(library))
        self._library.nf_host_new.restype = ctypes.c_void_p
        self._library.nf_host_fault.restype = ctypes.c_char_p
        timing = ctypes.byref(memory or CMemory(3, 1, 0))
        self._host = ctypes.c_void_p(self._library.nf_host_new(10, host_grant, timing))
        weakref.finalize(self, self._library.nf_host_delete, self._host)
        pins = _pins(library)
        self.device, self.to = pins["FromDevice"], pins["ToDevice"]
        self._kept: list[CBlock] = []
        rng = random.Random(seed)
        pack, rate = PackOptions(dense=dense, rng=rng), 0.0 if dense else 0.1
        config = LinkConfig(pack=pack, rng=rng, grant_plain=grant, grant_data=grant)
        config.idle_flit_rate = config.eds_rate = rate
        self.stub = DeviceStub(DeviceLink(config), latency=(1, 30), rng=rng)
        self.damage: Callable[[int, WireFlit], WireFlit] = lambda _number, flit: flit
        self.flits = 0
        for _ in range(clocks):
            self.clock()

    def begin(self, block: Block) -> None:
        """Start a block of operations; `clock` then does them."""
        self._kept.append(block.as_c())
        self._library.nf_host_begin(self._host, ctypes.byref(self._kept[-1]))

    @property
    def busy(self) -> bool:
        """Return whether operations of the block are left."""
        return bool(self._library.nf_host_busy(self._host))

    @property
    def fault(self) -> str:
        """Return the text of the first rule that the device has broken, or ""."""
        return str(self._library.nf_host_fault(self._host).decode())

    def figures(self) -> Figures:
        """Return the counters of the host."""
        out = Figures()
        self._library.nf_host_figures(self._host, ctypes.byref(out))
        return out

    def clock(self) -> None:
        """Simulate one cycle of host and link model, and exchange their flits."""
        flit = self.stub.next_flit(bool(self.to.phy_up))
        self.device.tx_valid = int(flit is not None)
        if flit is not None:
            self.flits += 1
            self.show(self.damage(self.flits, flit))
        arrived = None
        if self.to.rx_valid:
            arrived = self.to.rx_protocol_id, number(self.to.rx_flit)
        self._library.nf_host_clock(self._host, ctypes.byref(self.device), ctypes.byref(self.to))
        if arrived is not None:
            self.stub.receive(*arrived)

    def show(self, flit: WireFlit) -> None:
        """Put a flit on the pins from the device to the host."""
        self.device.tx_protocol_id = flit[0]
        for word in range(17):
            self.device.tx_flit[word] = flit[1] >> 32 * word & 0xFFFF_FFFF

    def run(self, block: Block, limit: int = 40_000) -> None:
        """Simulate until the operations of a block are done, at most `limit` cycles."""
        self.begin(block)
        for _ in range(limit):
            if not self.busy:
                break
            self.clock()


def number(words: Any) -> int:
    return sum(int(word) << 32 * at for at, word in enumerate(words))


def write_then_read(lines: int, seed: int) -> Block:
    """Return a block that writes each line once and reads it later, in another order.

    Groups of 16 writes and of 16 reads alternate; the data come from the seed.
    """
    rng = np.random.default_rng(seed)
    sent = rng.integers(0, 256, (lines, LINE_BYTES), dtype=np.uint8)
    ops = np.zeros(2 * lines, OP)
    ops["kind"] = np.where(np.arange(2 * lines) // 16 % 2, Kind.READ, Kind.WRITE)
    for kind in (Kind.WRITE, Kind.READ):
        mine = np.flatnonzero(ops["kind"] == kind)
        line = (
            np.arange(lines)
            if kind is Kind.WRITE
            else np.concatenate([16 * i + rng.permutation(16) for i in range(lines // 16)])
        )
        ops["line"][mine] = line
        ops["address"][mine] = (line.astype(np.uint64) * 64 + (1 << 40)) & ~np.uint64(63)
        ops["ldid"][mine] = line % 16
    ops["after"] = np.where(ops["kind"] == Kind.READ, np.arange(2 * lines) // 16 * 16, 0)
    return Block.of(ops, sent, lines)


def writes(lines: int) -> Block:
    """Return a block that only writes each line once."""
    block = write_then_read(lines, seed=1)
    return Block.of(block.ops[block.ops["kind"] == Kind.WRITE], block.sent)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("grant", [32, 2])
def test_what_is_written_comes_back(dense: bool, grant: int) -> None:
    wire = Wire(3, dense, grant)
    for number in range(2):
        block = write_then_read(320, seed=number)
        wire.run(block)
        assert wire.fault == ""
        assert not wire.busy
        assert np.array_equal(block.got, block.sent)
        assert not (block.answers & POISON).any()
    link = wire.stub.link
    assert link.issues == []
    assert link.active
    figures = wire.figures()
    assert 0 <= figures.flits_to_device - link.counters["rx_flit"] <= 1  # one on its way
    assert figures.data_flits_to_device > 0
    assert sum(figures.devload) == 4 * 320
    # Every format that a memory device sends without multi-headers has been decoded.
    both = (1, 0), (1, 4), (1, 5)
    for slots, own in ((figures.slots_from_device, (0, 3)), (figures.slots_to_device, (0, 5))):
        assert dense or all(slots[row][code] for row, code in ((0, 4), own, *both))


@pytest.mark.parametrize("dense", [True, False])
def test_no_acknowledgement_is_lost(dense: bool) -> None:
    """Check that the places of both retry buffers are free again after long traffic.

    A host that loses acknowledgements of the device stands still.
    """
    wire = Wire(2, dense)
    wire.run(write_then_read(3200, seed=1), limit=200_000)
    assert not wire.busy
    assert wire.fault == ""
    for _ in range(300):
        wire.clock()
    assert wire.stub.link.unacknowledged < wire.stub.link.config.ack_force_threshold
    assert wire.stub.link.issues == []
    assert wire.figures().data_flits_from_device > wire.stub.link.buffer.depth


def test_writes_reach_the_packing_limit() -> None:
    """Check that dense writes need hardly more than 5 flits for 4 lines."""
    wire = Wire(grant=64)
    wire.stub._latency = (1, 1)
    wire.run(writes(1600))
    assert wire.fault == ""
    assert 1600 / wire.figures().flits_to_device > 0.79


def test_poison_is_reported() -> None:
    wire = Wire()
    wire.stub.memory = Liar(16, lambda a: replace(a, poison=True))  # type: ignore[type-var]
    block = write_then_read(16, seed=1)
    wire.run(block)
    assert wire.fault == ""
    assert int(((block.answers & POISON) != 0).sum()) == 1


# -- negative twins: each rule, broken once ---------------------------------------------------

BEFORE = 40
"""Number of good flits before the damage: the link is up, answers are in flight."""


def other(payload: int) -> Damage:
    """Return damage that replaces a flit by one with this payload and a right CRC."""
    return lambda _flit: (0x5555, seal(payload))


def crafted(*slots: tuple[int, int], sz: int = 1, extra: int = 0) -> Damage:
    """Return damage that replaces a flit by a protocol flit of the given slots.

    Args:
        slots: (format, bits) of slots 0 to 3.
        sz: Field Sz of the header.
        extra: Other bits of the header.
    """
    payload = sz << 4 | extra
    for slot, (code, bits) in enumerate(slots):
        payload |= code << 5 + 3 * slot | bits << (32 if slot == 0 else 128 * slot)
    return other(payload)


EMPTY = (5, 0)
H_EMPTY = (4, 0)
DRS = S2MDRS(0, 0x7777).pack()
NDR = S2MNDR(0, 0x7777).pack()
FLITS = {
    "crc": (lambda flit: (flit[0], flit[1] ^ 1 << 200), "has the CRC"),
    "protocol id": (lambda flit: (0xFFFF, flit[1]), "Protocol ID FFFF"),
    "second init": (other(encode_control(InitParam(63))), "a second INIT.Param"),
    "retry": (other(encode_control(RetryFrame())), "where nothing was damaged"),
    "static bit": (other(encode_control(Llcrd(1)) | 1 << 300), "static bit"),
    "acknowledged": (other(encode_control(Llcrd(200))), "fewer are outstanding"),
    "acknowledged by bit 3": (other(encode_control(Llcrd(8))), "fewer are outstanding"),
    "acknowledged by Ak": (crafted(H_EMPTY, EMPTY, EMPTY, EMPTY, extra=4), "fewer are outstanding"),
    "cache credit": (other(encode_control(Llcrd(0)) | 1 << 24), "does not return"),
    "unknown tag": (crafted((4, NDR & (1 << 28) - 1), EMPTY, EMPTY, EMPTY), "which no request has"),
    "unknown read": (crafted((3, DRS), EMPTY, EMPTY, EMPTY), "which no request has"),
    "reserved header": (crafted(H_EMPTY, EMPTY, EMPTY, EMPTY, extra=1 << 18), "flit header"),
    "reserved bit": (crafted((4, 1 << 70), EMPTY, EMPTY, EMPTY), "reserved bit of slot 0"),
    "format": (crafted(H_EMPTY, EMPTY, (7, 0), EMPTY), "slot 2 has format 7"),
    "multi-header": (crafted((5, DRS | DRS << 40), EMPTY, EMPTY, EMPTY), "slot 0 has format 5"),
    "empty form": (crafted(H_EMPTY, EMPTY, EMPTY, (4, 0)), "is empty in format 4"),
    "stray data": (crafted(H_EMPTY, (0, 5), EMPTY, EMPTY), "none are owed"),
    "sz": (crafted((3, DRS), EMPTY, EMPTY, EMPTY, sz=0), "Sz = 0"),
}


@pytest.mark.parametrize(("damage", "text"), FLITS.values(), ids=FLITS.keys())
def test_a_bad_flit_is_found(damage: Any, text: str) -> None:
    wire = Wire()
    # Between answers: no data may be owed where a control flit takes their place.
    wire.damage = lambda number, flit: damage(flit) if number == BEFORE else flit
    wire.run(writes(320))
    assert text in wire.fault


ANSWERS = {
    "other LD-ID": (lambda a: S2MNDR(0, a.tag, a.ldid ^ 1), "answers a write of LD-ID 3"),
    "DRS for a write": (lambda a: S2MDRS(0, a.tag, a.ldid), "DRS with tag 0003"),
    "answered twice": (lambda a: S2MNDR(0, a.tag - 1, a.ldid - 1), "which no request has"),
    "opcode": (lambda a: S2MNDR(1, a.tag, a.ldid), "NDR of opcode 1"),
    "meta": (lambda a: S2MNDR(0, a.tag, a.ldid, meta_field=0), "MetaField"),
    "none": (lambda _a: None, "no answer for 20000 clocks"),
}


@pytest.mark.parametrize(("change", "text"), ANSWERS.values(), ids=ANSWERS.keys())
def test_a_wrong_answer_is_found(change: Any, text: str) -> None:
    wire = Wire()
    wire.stub.memory = Liar(3, change)
    wire.run(write_then_read(64, seed=1))
    assert text in wire.fault


def test_a_device_without_credits_is_found() -> None:
    wire = Wire(host_grant=0)
    wire.stub.link.credits.plain = 1
    wire.run(write_then_read(16, seed=1))
    assert "spent credits that it did not have" in wire.fault


def test_a_block_that_makes_no_sense_is_refused() -> None:
    wire = Wire()
    block = write_then_read(16, seed=1)
    block.ops["line"][0] = 16
    wire.begin(block)
    assert "operation 0 of the block makes no sense" in wire.fault


BURSTS = {
    "alignment": ({"m_axi_awaddr": 8}, "is not aligned"),
    "size": ({"m_axi_awsize": 5}, "AWSIZE is 5"),
    "burst": ({"m_axi_awburst": 0}, "AWBURST is 0"),
    "page": ({"m_axi_awaddr": 63 * 64, "m_axi_awlen": 1}, "crosses a 4 KB boundary"),
    "memory": ({"m_axi_awaddr": 1024 * 64}, "leaves the memory"),
    "last": ({"m_axi_wlast": 0}, "WLAST is 0 at beat 1 of 1"),
}


@pytest.mark.parametrize(("changes", "text"), BURSTS.values(), ids=BURSTS.keys())
def test_axi_rules(changes: dict[str, int], text: str) -> None:
    wire = Wire(clocks=40)
    device = wire.device
    device.m_axi_awvalid = device.m_axi_wvalid = device.m_axi_wlast = device.m_axi_bready = 1
    device.m_axi_awsize, device.m_axi_awburst = 6, 1
    device.m_axi_wstrb[0] = device.m_axi_wstrb[1] = 0xFFFFFFFF
    for name, value in changes.items():
        setattr(device, name, value)
    wire.clock()
    device.m_axi_awvalid = device.m_axi_wvalid = 0
    for _ in range(8):
        wire.clock()
    assert text in wire.fault


BURST = 4
STALLED = 40
SHARE = 2000


def beats(wire: Wire) -> list[int]:
    """Request a burst of reads at the memory port; return the cycles from request to each of its
    beats.
    """
    device, clocks = wire.device, []
    device.m_axi_arvalid = device.m_axi_rready = 1
    device.m_axi_arsize, device.m_axi_arburst, device.m_axi_arlen = 6, 1, BURST - 1
    for clock in range(400):
        wire.clock()
        device.m_axi_arvalid = 0
        if wire.to.m_axi_rvalid:
            clocks.append(clock)
    assert wire.fault == ""
    return clocks


@pytest.mark.parametrize("latency", [1, 48, 300])
@pytest.mark.parametrize("beat", [1, 3])
def test_latency_and_beats(latency: int, beat: int) -> None:
    """Check that the first beat of a read burst comes after the latency, and others at the beat
    interval.
    """
    wire = Wire(memory=CMemory(latency, beat, 0), clocks=40)
    assert beats(wire) == [latency + beat * number for number in range(BURST)]


@pytest.mark.parametrize("latency", [2, 48])
def test_latency_of_a_write(latency: int) -> None:
    wire = Wire(memory=CMemory(latency, 1, 0), clocks=40)
    device = wire.device
    device.m_axi_awvalid = device.m_axi_wvalid = device.m_axi_wlast = device.m_axi_bready = 1
    device.m_axi_awsize, device.m_axi_awburst = 6, 1
    wire.clock()
    device.m_axi_awvalid = device.m_axi_wvalid = 0
    took = 0
    while not wire.to.m_axi_bvalid:
        wire.clock()
        took += 1
    assert (took, wire.fault) == (latency, "")


@pytest.mark.parametrize("beat", [1, 4])
def test_write_beats_are_as_far_apart(beat: int) -> None:
    wire = Wire(memory=CMemory(3, beat, 0), clocks=40)
    device, taken = wire.device, []
    device.m_axi_wvalid = 1  # data may come before their address
    for clock in range(40):
        if wire.to.m_axi_wready:
            taken.append(clock)
        wire.clock()
    assert set(np.diff(taken)) == {beat}


def test_back_pressure() -> None:
    """Check the share of cycles without READY on each request channel of the memory: STALLED
    percent.
    """
    wire = Wire(memory=CMemory(3, 1, STALLED), clocks=40)
    open_clocks = np.zeros(3, int)
    for _ in range(SHARE):
        wire.clock()
        to = wire.to
        open_clocks += (to.m_axi_awready, to.m_axi_wready, to.m_axi_arready)
    share = 100 * (1 - open_clocks / SHARE)
    assert np.all(np.abs(share - STALLED) < 5), share


def test_streams_do_not_wait_for_each_other() -> None:
    """Check that single reads in one stream are not delayed by as many writes as possible in the
    other.
    """
    count = 40
    ops = operations(2 * count, Kind.WRITE)
    ops["kind"][:count] = Kind.READ
    ops["after"][:count] = np.arange(count)
    ops["line"] = np.tile(np.arange(count), 2)
    ops["address"] = ops["line"] * LINE_BYTES
    block = Block.of(ops, np.zeros((count, LINE_BYTES), np.uint8), count, beside=count)
    wire = Wire()
    wire.stub._latency = (30, 30)
    wire.run(block)
    assert wire.fault == ""
    clocks = block.clocks()
    assert clocks.min() >= 30
    assert wire.figures().cycles > count * 30, "each read waits for the one before"
    assert clocks[:count].max() < 60, "no read waits for the writes"


def queued(needs: list[list[int]], light: int, queues: int = 2) -> Block:
    """Return a block of reads in queue 0 and as many writes in queue 1.

    Args:
        needs: For each pair of a read and a write, what the write needs of each queue.
        light: 1 for reads whose answers nothing waits for.
        queues: Number of queues.
    """
    count = len(needs)
    ops = operations(2 * count, Kind.WRITE)
    ops["kind"][:count], ops["light"][:count] = Kind.READ, light
    ops["queue"][count:] = 1
    ops["line"] = np.tile(np.arange(count), 2)
    ops["address"] = np.arange(2 * count) * LINE_BYTES
    ops["after"][:count] = count
    ops["after"][count:] = count + 1 + np.arange(count)
    lines = np.zeros((2 * count + 1, LINE_BYTES // 4), np.uint32)
    lines[count + 1 :, :queues] = needs
    return Block.of(ops, lines.view(np.uint8), count, queues=queues)


def test_queues_wait_for_what_they_need() -> None:
    """Check that a write is sent after so many answers of each queue, and the queues take turns.

    The answers of light reads are not waited for.
    """
    count = 12
    needs = [[n + 1, n] for n in range(count)]
    for light in (0, 1):
        block, wire = queued(needs, light), Wire()
        wire.stub._latency = (30, 30)
        wire.run(block)
        assert wire.fault == ""
        ended = block.ended().astype(np.int64)
        sent = ended - block.clocks().astype(np.int64)
        reads, writes = sent[:count], sent[count:]
        assert (writes[1:] >= ended[count:-1]).all(), "a write waits for the one before"
        assert bool((writes >= ended[:count]).all()) == (not light)
        assert reads.max() < ended[:count].max(), "no read waits for a write"


@pytest.mark.parametrize("field", ["queue", "after", "kind"])
def test_queues_that_make_no_sense(field: str) -> None:
    block, wire = queued([[0, 0]] * 3, 0), Wire()
    block.ops[field][4] = {"queue": 2, "after": 7, "kind": Kind.REG_READ}[field]
    wire.run(block)
    assert "operation 4 of the block makes no sense" in wire.fault


def test_registers_have_no_stream_beside_them() -> None:
    wire = Wire()
    ops = operations(2, Kind.REG_READ)
    wire.begin(Block.of(ops, beside=1))
    assert "operation 0 of the block makes no sense" in wire.fault


UNKNOWN = {
    "control": (".irq,", ".irq (),", "an output that must be known is X"),
    "payload": (
        ".tx_flit,\n    .tx_ready",
        ".tx_flit (),\n    .tx_ready",
        "the device transfers an X",
    ),
}


@pytest.mark.parametrize("sim", ["icarus"])
@pytest.mark.parametrize(("old", "new", "text"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_an_unknown_output_is_found(
    tmp_path: Path, sim: str, old: str, new: str, text: str
) -> None:
    model = bulk_build.build(sim, edits=[Edit("hdl/nf_controller.sv", old, new)])
    with pytest.raises(BulkFault, match=text):
        model.open(tmp_path, 20, 1)
