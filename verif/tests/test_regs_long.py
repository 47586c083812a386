# SPDX-License-Identifier: Apache-2.0
"""Block test of the event counters, for a million clocks.

spec: controller §7.
"""

from cocotb.triggers import ClockCycles

from models.register_map import REG_MAP
from verif.tests.packed_structs import pack
from verif.tests.ports import block_test
from verif.tests.regs_testbench import COUNTED, EVENTS, RegsBench


@block_test(lambda dut: RegsBench(dut).start(), timeout_time=100, timeout_unit="ms")
async def long_counts(bench: RegsBench) -> None:
    """Check that counters count events in each of about 2^20 clocks: carries reach upper bits."""
    dut = bench.dut
    held = {port: {event: 1 for event, _ in COUNTED[port]} for port in EVENTS}
    clocks = 0
    for more in (1 << 20, bench.rng.randrange(1, 1000)):
        for port, members in EVENTS.items():
            getattr(dut, port).value = pack(members, **held[port])
        await ClockCycles(dut.clk, more)
        for port in EVENTS:
            getattr(dut, port).value = 0
        clocks += more
        assert await bench.counters() == dict.fromkeys(REG_MAP.counters(), clocks)
    await bench.write("CTRL", 1)
    assert not any((await bench.counters()).values())
