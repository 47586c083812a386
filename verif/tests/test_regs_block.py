# SPDX-License-Identifier: Apache-2.0
"""Block tests of the registers alone (top `nf_regs`), where every event can be driven.

spec: controller §7.
"""

from dataclasses import fields
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge, with_timeout

from models.commit_check import CommitCode
from models.modes import Mode
from models.regions import RegionConfig
from models.register_map import REG_MAP
from models.register_types import FieldAccess, byte_mask
from verif.axi import Resp
from verif.tests.packed_structs import pack, unpack
from verif.tests.register_checks import RegisterChecks
from verif.tests.regs_testbench import COUNTED, EVENTS, RAISES, RegsBench, regs_test

RENAMED = {"bind": "bind_ld", "signed": "codes_signed"}
"""Members of `region_desc_t` that have another name in `RegionConfig`, by that name."""


@regs_test
async def map_checks(bench: RegsBench) -> None:
    """Check resets, access types and address decoding of `nf_regs` with this build's parameters."""
    regs = {k: r for k, r in bench.regs.items() if r.access is not FieldAccess.COMMIT}
    checks = RegisterChecks(bench.port, regs, bench.rng)
    await bench.checks.reset_values()
    await checks.read_write()
    await checks.no_aliases()
    await checks.read_only()
    await bench.checks.unmapped(1024)


@regs_test
async def counters(bench: RegsBench) -> None:
    """Check that every event counts in its own counter and raises its own interrupt."""
    dut = bench.dut
    irq = bench.regs["IRQ_STATUS"]
    events = {name.upper() for counted in COUNTED.values() for name, _ in counted}
    assert events == set(REG_MAP.counters()), "counters of the map, and events that can be driven"
    for port, counted in COUNTED.items():
        for event, width in counted:
            name = event.upper()
            for value in sorted({1 << width - 1, (1 << width) - 1}):
                await bench.pulse(port, **{event: value})
                seen = {k: v for k, v in (await bench.counters()).items() if v}
                assert seen == {name: value}, f"event {name} counted as {seen}"
                want = irq.field(RAISES[event]).mask if event in RAISES else 0
                assert await bench.read("IRQ_STATUS") == want, f"interrupt of {name}"
                for enable in (~want & irq.mask(), want, 0):
                    await bench.write("IRQ_ENABLE", enable)
                    assert int(dut.irq.value) == bool(enable & want)
                await bench.checks.write_one_to_clear(irq, want)
                await bench.write("CTRL", 1)
    total = dict.fromkeys(REG_MAP.counters(), 0)
    for _ in range(300):
        for port, counted in COUNTED.items():
            values = {event: bench.rng.getrandbits(width) for event, width in counted}
            getattr(dut, port).value = pack(EVENTS[port], **values)
            for event, value in values.items():
                total[event.upper()] += value
        await RisingEdge(dut.clk)
    for port in EVENTS:
        getattr(dut, port).value = 0
    assert await bench.counters() == total


@regs_test
async def event_in_clock_of_clear(bench: RegsBench) -> None:
    """Check that a clear removes an event before it, and keeps one in the same clock or later."""
    last = 1 << (bench.params.regions - 1)
    error = pack("access_error_t", valid=1, cause=3, tag=0xBEEF)
    cases: tuple[tuple[str, int, str, int], ...] = (
        ("IRQ_STATUS", bench.regs["IRQ_STATUS"].field("DONE").mask, "region_done_set", 1),
        ("FALLBACK", last, "fallback_set", last),
        ("ERR_INFO", 1, "access_error", error),
        ("LINK_ERR_INFO", 1, "link_status", pack("link_status_t", error_kind=5)),
        ("CTRL", 1, "core_events", pack(EVENTS["core_events"], early_read=1)),
    )
    for name, clear, port, event in cases:
        observed = "EARLY_READ" if name == "CTRL" else name
        kept = set()
        for delay in range(8):
            await bench.write(name, clear)
            assert not await bench.read(observed) & 1 << clear.bit_length() - 1
            await bench.pulse(port, event)  # something to clear
            after = await bench.clear_beside(name, clear, port, event, delay)
            value = await bench.read(observed)
            is_set = bool(value & clear)
            assert is_set == (after >= 0), (
                f"{name}: event {after} clocks after the clear, bit {is_set}"
            )
            if observed == "EARLY_READ":
                assert value == (after >= 0)
            kept.add(after)
        assert {-1, 0, 1} <= kept, f"{name}: the clear was not hit: {kept}"


@regs_test
async def ram_error(bench: RegsBench) -> None:
    """Check RAS_ERROR and RAS_INJECT: the first bad word is captured, and a flip lasts one clock.

    A corrected word is not captured.
    """
    dut = bench.dut
    rng, captured = bench.rng, bench.regs["RAS_ERROR"]
    for _ in range(12):
        values = bench.drawn("ram_events_t")
        first = values | {"ram_parity": rng.randrange(1, 16)}
        await bench.pulse("ram_events", **(values | {"ram_parity": 0}))
        assert not captured.unpack(await bench.read("RAS_ERROR"))["VALID"]
        await bench.pulse("ram_events", **first)
        await bench.pulse("ram_events", **bench.drawn("ram_events_t", ram_parity=1))
        word = captured.pack(VALID=1, RAM=first["ram"], ROW=first["row"])
        assert await bench.read("RAS_ERROR") == word
        await bench.write("RAS_ERROR", 0xFFFF_FFFE)
        assert await bench.read("RAS_ERROR") == word, "only VALID arms the capture"
        await bench.write("RAS_ERROR", 1)
        assert not captured.unpack(await bench.read("RAS_ERROR"))["VALID"]

        seen: list[dict[str, int]] = []
        watch = cocotb.start_soon(flips_seen(dut, seen))
        inject = bench.regs["RAS_INJECT"]
        place = {"RAM": rng.getrandbits(4), "ROW": rng.getrandbits(8), "PLACE": rng.getrandbits(13)}
        await bench.write("RAS_INJECT", inject.pack(**place))
        await bench.write("RAS_INJECT", inject.pack(GO=1), 0b1000 if not place["RAM"] else 0xF)
        if place["RAM"]:
            place = dict.fromkeys(place, 0)
        await bench.write("RAS_INJECT", inject.pack(**place))
        watch.cancel()
        want = {"valid": 1, **{name.lower(): value for name, value in place.items()}}
        assert seen == [want], f"{seen}, not {want}"
    # A reset flips nothing, nor does the clock after it.
    dut.rst_n.value = 0
    await ClockCycles(dut.clk, 2)
    flipped: list[dict[str, int]] = []
    cocotb.start_soon(flips_seen(dut, flipped))
    dut.rst_n.value = 1
    await ClockCycles(dut.clk, 4)
    assert not flipped, f"flipped by a reset: {flipped}"


@regs_test
async def ram_error_in_clock_of_clear(bench: RegsBench) -> None:
    """Check that an error in the clock of a clear of RAS_ERROR, or later, is captured next.

    An error before the clear is not captured.
    """
    captured = bench.regs["RAS_ERROR"]
    moments: set[int] = set()
    for delay in range(8):
        await bench.pulse("ram_events", **bench.drawn("ram_events_t", ram_parity=1))
        second = bench.drawn("ram_events_t", ram_parity=1)
        event = pack(EVENTS["ram_events"], **second)
        after = await bench.clear_beside("RAS_ERROR", 1, "ram_events", event, delay)
        moments.add(after)
        word = await bench.read("RAS_ERROR")
        if after < 0:
            assert not captured.unpack(word)["VALID"], f"an error {after} clocks after the clear"
        else:
            assert word == captured.pack(VALID=1, RAM=second["ram"], ROW=second["row"]), after
        await bench.write("RAS_ERROR", 1)
    assert {-1, 0, 1} <= moments, f"the clear was not hit: {moments}"


async def flips_seen(dut: Any, seen: list[dict[str, int]]) -> None:
    """Append each flip on the port `ram_flip` to `seen`, clock by clock, for ever."""
    while True:
        await FallingEdge(dut.clk)
        flip = unpack("ram_flip_t", int(dut.ram_flip.value))
        if flip["valid"]:
            seen.append(flip)


@regs_test
async def access_error(bench: RegsBench) -> None:
    """Check that ERR_* capture the first refused access, and that writing VALID arms them again."""
    info = bench.regs["ERR_INFO"]

    async def captured() -> dict[str, int]:
        word = await bench.read("ERR_INFO")
        addr = await bench.read("ERR_ADDR_HI") << 32 | await bench.read("ERR_ADDR_LO")
        out = {name.lower(): value for name, value in info.unpack(word).items()}
        return {**out, "tag": await bench.read("ERR_TAG"), "addr": addr >> 6, "low": addr & 63}

    for _ in range(12):
        first, second = (bench.drawn("access_error_t", valid=1) for _ in range(2))
        for error in (first, second, second | {"valid": 0}):
            await bench.pulse("access_error", **error)
        assert await captured() == {**first, "low": 0}
        irq = bench.regs["IRQ_STATUS"].field("ACCESS_ERROR")
        assert irq.extract(await bench.read("IRQ_STATUS")) == 1
        await bench.write("IRQ_STATUS", irq.mask)
        await bench.write("ERR_INFO", 0xFFFF_FFFE)
        assert await captured() == {**first, "low": 0}, "writing other bits changed the capture"
        await bench.write("ERR_INFO", 1)
        assert await captured() == {**first, "valid": 0, "low": 0}, "the fields did not stay"
    await bench.checks.write_one_to_clear(info, 0)


@regs_test
async def levels(bench: RegsBench) -> None:
    """Check that status inputs are read in their fields, and configuration reaches the outputs."""
    dut = bench.dut
    regions, rng = bench.params.regions, bench.rng
    for _ in range(8):
        bits = {
            name: rng.getrandbits(regions)
            for name in ("committed", "done", "saturated", "illegal", "closed")
        }
        for name, value in bits.items():
            getattr(dut, f"region_{name}").value = value
        complete = rng.getrandbits(32 * regions)
        dut.region_complete.value = complete
        status = rng.getrandbits(2)
        dut.link_up.value, dut.init_busy.value = status & 1, status >> 1
        fallback = rng.getrandbits(regions)
        await bench.write("FALLBACK", 0xFFFF_FFFF)
        await bench.pulse("fallback_set", fallback)
        await RisingEdge(dut.clk)
        assert int(dut.fallback.value) == fallback
        assert await bench.read("FALLBACK") == fallback
        clear = rng.getrandbits(regions)
        await bench.write("FALLBACK", clear)
        fallback &= ~clear
        assert await bench.read("FALLBACK") == fallback
        assert await bench.read("DONE") == bits["done"]
        up, busy = status & 1, status >> 1
        assert await bench.read("STATUS") == bench.regs["STATUS"].pack(LINK_UP=up, INIT_BUSY=busy)
        for r in range(regions):
            reg = bench.regs[f"REGION[{r}].STATUS"]
            word = await bench.read(reg.name)
            assert reg.unpack(word) == {
                "COMMITTED": bits["committed"] >> r & 1,
                "CODE": 0,
                "DONE": bits["done"] >> r & 1,
                "FALLBACK": fallback >> r & 1,
                "SATURATED": bits["saturated"] >> r & 1,
                "ILLEGAL_SEEN": bits["illegal"] >> r & 1,
                "CLOSED": bits["closed"] >> r & 1,
            }
            want = complete >> (32 * r) & 0xFFFF_FFFF
            assert await bench.read(f"REGION[{r}].COMPLETE_LINES") == want
        for name, output in (
            ("CAP_WINDOW", dut.cap_window),
            ("CAP_THRESHOLD", dut.cap_threshold),
            ("DEVLOAD_THRESHOLD", dut.devload_threshold),
        ):
            value = rng.getrandbits(32)
            await bench.write(name, value)
            assert int(output.value) == bench.regs[name].stored(0, value)


@regs_test
async def commit(bench: RegsBench) -> None:
    """Check a commit: the response waits for commit_done, reads go on, the descriptor is right."""
    dut = bench.dut
    rng = bench.rng
    epochs = dict.fromkeys(range(bench.params.regions), 0)
    for step in range(40):
        r = rng.randrange(bench.params.regions)
        d = bench.drawn("region_desc_t")
        d["bind_shift"] %= 3
        d["keep_sum"] &= d["mode"] == Mode.FP32  # no other mode has sums to keep
        d["tern5"] = int(bench.params.tern5 and d["mode"] == Mode.G_TERN5)  # not a register
        members: dict[str, Any] = {
            one.name: d[RENAMED.get(one.name, one.name)] for one in fields(RegionConfig)
        }
        members |= {name: d[name] << 6 for name in ("base", "state_base")}
        config = RegionConfig(**members | {"mode": Mode(d["mode"])})
        for name, value in config.register_values().items():
            await bench.write(f"REGION[{r}].{name}", value)
        epoch, strobe = rng.getrandbits(32), rng.choice((0xF, 0xF, 0x1, 0x6, 0xC))
        lanes = byte_mask(strobe)
        merged = (epochs[r] & ~lanes) | (epoch & lanes)
        code = rng.choice(
            (CommitCode.OK, CommitCode.OK, CommitCode.LINES, CommitCode.STATE_OVERLAP)
        )
        write = cocotb.start_soon(bench.write(f"REGION[{r}].EPOCH", epoch, strobe))
        while not int(dut.commit_valid.value):
            await RisingEdge(dut.clk)
        for _ in range(step % 4):  # reads while the commit is pending
            assert await bench.read("STATUS") == bench.regs["STATUS"].field("COMMIT_BUSY").mask
            assert await bench.read(f"REGION[{r}].EPOCH") == epochs[r], "epoch before the decision"
            assert not write.done(), "the write was answered before the commit was decided"
        await FallingEdge(dut.clk)
        assert int(dut.commit_valid.value)
        assert int(dut.commit_region.value) == r
        assert unpack("region_desc_t", int(dut.commit_desc.value)) == d
        assert int(dut.commit_epoch.value) == merged
        assert not int(dut.s_axil_bvalid.value)
        dut.commit_done.value, dut.commit_code.value = 1, int(code)
        await FallingEdge(dut.clk)
        dut.commit_done.value, dut.commit_code.value = 0, 0
        assert not int(dut.commit_valid.value), "commit_valid stays after commit_done"
        assert int(dut.s_axil_bvalid.value), "no response in the clock after commit_done"
        await write
        if code is CommitCode.OK:
            epochs[r] = merged
        for other in range(bench.params.regions):
            assert await bench.read(f"REGION[{other}].EPOCH") == epochs[other]
        status = await bench.read(f"REGION[{r}].STATUS")
        assert bench.regs[f"REGION[{r}].STATUS"].field("CODE").extract(status) == code


@regs_test
async def close(bench: RegsBench) -> None:
    """Check that CTRL.CLOSE reaches the core with its region, is answered, and is no commit."""
    cases = [(strobe, bit) for strobe in (0xF, 0x1, 0xE) for bit in (0, 1)]
    for strobe, bit in bench.rng.sample(2 * cases, 2 * len(cases)):
        region = bench.rng.randrange(bench.params.regions)
        word = bench.rng.getrandbits(31) << 1 | bit
        bench.closed.clear()
        # On the bare pins: an agent sends zeros in bytes that it does not write.
        address = bench.regs[f"REGION[{region}].CTRL"].address
        assert await bench.raw_write(address, word, strobe) == Resp.OKAY
        assert bench.closed == [region] * (word & strobe & 1)
        for name in (f"REGION[{region}].CTRL", f"REGION[{region}].EPOCH", "STATUS"):
            value = await bench.raw_read(bench.regs[name].address)
            assert not value, f"{name}: a close is no commit"


@regs_test
async def held_reads(bench: RegsBench) -> None:
    """Check that read data stays stable until it is accepted, also of a register that changes."""
    dut = bench.dut
    reg = bench.regs["SLOT_HIT"]
    dut.core_events.value = pack(EVENTS["core_events"], slot_hit=1)
    before = 0
    for held in range(8):
        value = await with_timeout(bench.raw_read(reg.address, held), 1, "us")
        assert value > before
        before = value


@regs_test
async def order_and_strobes(bench: RegsBench) -> None:
    """Check writes with AW and W in any order and with all 16 strobes; no other register changes.

    EPOCH without a strobe commits nothing.
    """
    regs = [reg for reg in bench.regs.values() if reg.mask(FieldAccess.RW)]
    values = {reg.address: reg.reset for reg in regs}
    for strobe in range(16):
        for aw, w in ((0, 0), (0, 1), (1, 0), (0, 4), (4, 0)):
            reg, data = bench.rng.choice(regs), bench.rng.getrandbits(32)
            value = reg.stored(values[reg.address], data, byte_mask(strobe))
            values[reg.address] = value
            write = bench.raw_write(reg.address | bench.rng.randrange(4), data, strobe, aw, w)
            assert await with_timeout(write, 1, "us") == Resp.OKAY
            read = bench.raw_read(reg.address | bench.rng.randrange(4))
            assert await with_timeout(read, 1, "us") == value, f"strobe {strobe:04b}"
    await bench.pulse("region_done_set", 1)
    irq = bench.regs["IRQ_STATUS"]
    write = bench.raw_write(irq.address, 0xFFFF_FFFF, 0b1110, 0, 0)
    assert await with_timeout(write, 1, "us") == Resp.OKAY
    seen = await with_timeout(bench.raw_read(irq.address), 1, "us")
    assert seen == irq.field("DONE").mask, "ones in a disabled byte cleared a bit"
    write = bench.raw_write(bench.regs["REGION[0].EPOCH"].address, 0x55, 0, 0, 0)
    assert await with_timeout(write, 1, "us") == Resp.OKAY, "EPOCH without a strobe"
    assert await bench.read("REGION[0].EPOCH") == 0
    for reg in regs:
        assert await bench.read(reg.name) == values[reg.address], f"{reg.name} at the end"
