# SPDX-License-Identifier: Apache-2.0
"""The C++ host for tests: Python plays the device at its pins, a clock at a time."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cocotbext.cxl.link.device_stub import DeviceStub, PlainMemory
from cocotbext.cxl.link.link import DeviceLink, WireFlit
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.wire.messages import M2SMessage, S2MMessage
from cocotbext.cxl.wire.packer import PackOptions
from neuron_fabric.data import read_json
from verif.host.c_interface import CBlock, Figures
from verif.host.generated_sources import PINS, words
from verif.replay.bulk.block import Block
from verif.replay.bulk.device import c_block


def _pins(library: Path) -> dict[str, Any]:
    """The structures of nf_pins.h by name, all 0, as the library was compiled with them."""
    out = {}
    for name, pins in read_json(library.with_name(PINS)).items():
        word = ctypes.c_uint32
        fields = [(pin, word * words(width) if width > 32 else word) for pin, width in pins]
        out[name] = type(name, (ctypes.Structure,), {"_fields_": fields})()
    return out


class CHost:
    """The host of the library, its pins and the block that it is given."""

    def __init__(self, library: Path, mem_lines_log2: int = 10, grant: int = 64) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.nf_host_new.restype = ctypes.c_void_p
        self._library.nf_host_fault.restype = ctypes.c_char_p
        self._host = ctypes.c_void_p(self._library.nf_host_new(mem_lines_log2, grant))
        pins = _pins(library)
        self.device, self.to = pins["FromDevice"], pins["ToDevice"]
        self._kept: list[CBlock] = []

    def begin(self, block: Block) -> None:
        """Start a block."""
        self._kept.append(c_block(block))
        self._library.nf_host_begin(self._host, ctypes.byref(self._kept[-1]))

    @property
    def busy(self) -> bool:
        """There is something to do."""
        return bool(self._library.nf_host_busy(self._host))

    def clock(self) -> None:
        """One rising edge with ``device`` as it stands; ``to`` is what comes then."""
        self._library.nf_host_clock(self._host, ctypes.byref(self.device), ctypes.byref(self.to))

    @property
    def fault(self) -> str:
        """The first broken rule, or nothing."""
        return str(self._library.nf_host_fault(self._host).decode())

    def figures(self) -> Figures:
        """What was counted."""
        out = Figures()
        self._library.nf_host_figures(self._host, ctypes.byref(out))
        return out

    def close(self) -> None:
        """Give it back."""
        self._library.nf_host_delete(self._host)


Change = Callable[[S2MMessage | None], S2MMessage | None]
"""Answer of the memory -> what the device sends."""


class Liar(PlainMemory):
    """Memory whose answer number ``at``, counted from 0, is changed."""

    def __init__(self, at: int, change: Change) -> None:
        super().__init__()
        self._at, self._change = at, change

    def respond(self, message: M2SMessage) -> S2MMessage | None:
        """See PlainMemory."""
        answer = super().respond(message)
        self._at -= 1
        return self._change(answer) if self._at == -1 else answer


Damage = Callable[[int, WireFlit], WireFlit]
"""(number of the flit, flit) -> what the host sees."""


class Wire:
    """The C++ host against the link model of `cocotbext.cxl` with plain memory behind it."""

    def __init__(self, host: CHost, seed: int, dense: bool, grant: int = 32) -> None:
        rng = random.Random(seed)
        pack = PackOptions(dense=dense, rng=rng)
        config = LinkConfig(
            pack=pack,
            rng=rng,
            grant_plain=grant,
            grant_data=grant,
            idle_flit_rate=0.0 if dense else 0.1,
            eds_rate=0.0 if dense else 0.1,
        )
        self.host = host
        self.stub = DeviceStub(DeviceLink(config), latency=(1, 30), rng=rng)
        self.damage: Damage = lambda _number, flit: flit
        self.flits = 0

    def clock(self) -> None:
        """One clock of both ends."""
        host = self.host
        flit = self.stub.next_flit(bool(host.to.phy_up))
        host.device.tx_valid = int(flit is not None)
        if flit is not None:
            self.flits += 1
            self.show(self.damage(self.flits, flit))
        arrived = None
        if host.to.rx_valid:
            arrived = host.to.rx_protocol_id, _number(host.to.rx_flit)
        host.clock()
        if arrived is not None:
            self.stub.receive(*arrived)

    def show(self, flit: WireFlit) -> None:
        """Put a flit on the device's pins."""
        self.host.device.tx_protocol_id = flit[0]
        for word in range(17):
            self.host.device.tx_flit[word] = flit[1] >> 32 * word & 0xFFFF_FFFF

    def run(self, block: Block, limit: int = 40_000) -> None:
        """Clocks until the block is done, or a rule is broken."""
        self.host.begin(block)
        for _ in range(limit):
            if not self.host.busy:
                break
            self.clock()


def _number(words: Any) -> int:
    return sum(int(word) << 32 * at for at, word in enumerate(words))
