# SPDX-License-Identifier: Apache-2.0
"""Link error capture, link state and link options of ``nf_regs`` (spec: controller §7)."""

from verif.tests.packed_structs import pack
from verif.tests.regs_testbench import RegsBench, regs_test


@regs_test
async def link_error(bench: RegsBench) -> None:
    """Check the capture of the first link error, LINK_STATE, and CTRL.MULTI_HEADER."""
    dut = bench.dut
    info, state = bench.regs["LINK_ERR_INFO"], bench.regs["LINK_STATE"]
    irq = bench.regs["IRQ_STATUS"].field("LINK_ERROR")
    for kind in range(1, 12):
        await bench.pulse("link_status", error_kind=kind)
        await bench.pulse("link_status", error_kind=kind % 11 + 1)
        word = await bench.read("LINK_ERR_INFO")
        assert info.unpack(word) == {"VALID": 1, "KIND": kind}
        await bench.write("LINK_ERR_INFO", 0xFFFF_FFFE)
        assert await bench.read("LINK_ERR_INFO") == word, "writing other bits changed the capture"
        await bench.write("LINK_ERR_INFO", 1)
        assert await bench.read("LINK_ERR_INFO") == word & ~1
        await bench.write("IRQ_STATUS", irq.mask)
    await bench.pulse("link_status", error_kind=11)  # ABORT raises the interrupt without any event
    assert irq.extract(await bench.read("IRQ_STATUS")) == 1
    for lrsm in range(5):
        for rrsm in range(2):
            dut.link_status.value = pack("link_status_t", lrsm=lrsm, rrsm=rrsm, aborted=lrsm == 4)
            word = await bench.read("LINK_STATE")
            assert state.unpack(word) == {"LRSM": lrsm, "RRSM": rrsm, "ABORTED": lrsm == 4}
    dut.link_status.value = 0
    for value in (2, 3, 0):
        await bench.write("CTRL", value)
        assert await bench.read("CTRL") == value & 2
        assert int(dut.multi_header.value) == value >> 1
