# SPDX-License-Identifier: Apache-2.0
"""Interrupt sources (top `nf_regs`): events that raise them, and events close to a clear.

spec: controller §7 (W1C: an event in the clock of the clear wins).
"""

from itertools import combinations
from types import SimpleNamespace

from verif.coverage.cover_model import CoverModel
from verif.coverage.white_box import WhiteBoxPoints
from verif.env.base_test import leave
from verif.tests.packed_structs import layout, pack
from verif.tests.regs_testbench import RAISES, RegsBench, regs_test

_CORE, _LINK, _RAM = (layout(f"{name}_events_t") for name in ("core", "link", "ram"))
EVENTS: dict[str, tuple[str, int]] = {
    "DONE": ("region_done_set", 1),
    "FALLBACK": ("fallback_set", 1),
    "ACCESS_ERROR": ("access_error", pack("access_error_t", valid=1, cause=3)),
    "LINK_ERROR": ("link_events", pack(_LINK, protocol_error=1)),
    "MEM_ERROR": ("core_events", pack(_CORE, mem_write_error=1)),
    "POISON": ("core_events", pack(_CORE, mem_poison=1)),
    "RAM_ERROR": ("ram_events", pack(_RAM, ram_parity=1)),
}
"""Event of each interrupt source: the port and its value for one clock."""


@regs_test
async def irq_by_each_event(bench: RegsBench) -> None:
    """Check that each event alone raises its interrupt source, or none, for each of its values."""
    status = bench.regs["IRQ_STATUS"]
    for port, struct in (("core_events", _CORE), ("link_events", _LINK), ("ram_events", _RAM)):
        for name, width in struct:
            for value in range(1, 1 << width) if width < 4 else (1, (1 << width) - 1):
                await bench.pulse(port, pack(struct, **{name: value}))
                mask = status.field(RAISES[name]).mask if name in RAISES else 0
                raised = await bench.read("IRQ_STATUS")
                assert raised == mask, f"{name} = {value} raised {raised:#x}, not {mask:#x}"
                await bench.write("IRQ_STATUS", mask)
    _leave(bench)


@regs_test
async def irq_event_in_clock_of_clear(bench: RegsBench) -> None:
    """Check that a clear removes an event before it, and keeps one in the same clock or later.

    For every source, masked and enabled; the interrupt pin follows.
    """
    status = bench.regs["IRQ_STATUS"]
    for source, (port, event) in EVENTS.items():
        mask = status.field(source).mask
        for enable in (status.mask() & ~mask, mask):
            await bench.write("IRQ_ENABLE", enable)
            moments: set[int] = set()
            for delay in range(8):
                moments.add(await _clear_beside(bench, port, event, mask, enable, delay))
            assert {-1, 0, 1} <= moments, f"{source}: the clear was not hit: {moments}"
            await bench.write("IRQ_STATUS", mask)
    _leave(bench)


@regs_test
async def irq_clears(bench: RegsBench) -> None:
    """Check that a write clears exactly those pending sources that are written with 1."""
    status = bench.regs["IRQ_STATUS"]
    masks = {source: status.field(source).mask for source in EVENTS}
    choices = [sum(rest) for rest in combinations(masks.values(), 2)]
    for ones in (*masks.values(), *choices, status.mask(), 0):
        for raised in (*choices, status.mask()):
            for source, (port, event) in EVENTS.items():
                if raised & masks[source]:
                    await bench.pulse(port, event)
            assert await bench.read("IRQ_STATUS") == raised
            await bench.write("IRQ_STATUS", ones)
            assert await bench.read("IRQ_STATUS") == raised & ~ones
            await bench.write("IRQ_STATUS", raised)
    _leave(bench)


def _leave(bench: RegsBench) -> None:
    points = WhiteBoxPoints(CoverModel())
    points.take(SimpleNamespace(u_regs=bench.dut))
    leave(points.model, {"cycles": bench.cycles})


async def _clear_beside(
    bench: RegsBench, port: str, event: int, mask: int, enable: int, delay: int
) -> int:
    """Clear a pending source, with a new event `delay` clocks after the start of the write.

    Check status and pin, and return the number of clocks from the clear to the event (negative:
    event first).
    """
    await bench.pulse(port, event)
    await bench.pulse(port, event)  # again while pending
    assert await bench.read("IRQ_STATUS") == mask
    after = await bench.clear_beside("IRQ_STATUS", mask, port, event, delay)
    kept = after >= 0
    assert await bench.read("IRQ_STATUS") == (mask if kept else 0), (
        f"event {after} clocks after the clear"
    )
    assert int(bench.dut.irq.value) == (kept and bool(enable & mask))
    if kept:
        await bench.write("IRQ_STATUS", mask)
    return after
