# SPDX-License-Identifier: Apache-2.0
"""Block tests of link-level retry (top ``nf_link``; spec: link spec §8, §9).

Build with a small RETRY_TIMEOUT (a few hundred): exhaustion needs ten time-outs for each retrain.
"""

import random
from collections import Counter
from typing import Any

import cocotb

from cocotbext.cxl.link.retry import Lrsm
from cocotbext.cxl.wire import control, flits
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, seal
from cocotbext.cxl.wire.flits import WireFlit
from cocotbext.cxl.wire.messages import S2MNDR, M2SReq, M2SRwD, ReqOp, RwdOp
from cocotbext.cxl.wire.packer import PackOptions
from verif.tests import link_testbench
from verif.tests.link_coverage import link_test
from verif.tests.link_messages import (
    FRAMES,
    PID,
    Damage,
    count_scale,
    random_damage,
)

_ERR_CRC, _ERR_ABORT = 1, 11


@cocotb.parametrize(rate=[0.01, 0.05], stall=[False, True], multi=[False, True])
@link_test
async def damaged_flits(dut: Any, rate: float, stall: bool, multi: bool) -> None:
    """Check that with damaged flits both ways each message arrives once, in order, unchanged."""
    rng = random.Random(cocotb.RANDOM_SEED + int(rate * 1000) + 2 * stall + multi)
    pack = PackOptions(dense=not stall, rng=random.Random(rng.getrandbits(32)))
    bench = await link_testbench.RetryTestbench(
        dut, rng.getrandbits(32), rng.randrange(1, 12), pack=pack
    ).up()
    dut.multi_header.value = multi
    bench.to_device, bench.to_host = random_damage(rng, rate), random_damage(rng, rate)
    if stall:
        bench.ready_rate, bench.core_rate, bench.rx_rate = 0.8, 0.7, 0.9
    count = 200 * count_scale()
    bench.fill(count)
    await bench.completed(300 * count + 40 * link_testbench.RETRY_TIMEOUT)
    bench.to_device = bench.to_host = None
    await bench.clocks(3 * link_testbench.RETRY_TIMEOUT)
    bench.check()
    assert bench.lrsm == link_testbench.NORMAL
    assert bench.host.retry.lrsm is Lrsm.NORMAL
    assert bench.host.unacknowledged <= 1
    seen = {k: v for k, v in bench.events.items() if v}
    dut._log.info("%s; host %s", seen, dict(bench.host.counters))
    if rate >= 0.05:
        assert bench.events["retry_local"]
        assert bench.events["retry_remote"]


@link_test
async def damaged_from_the_start(dut: Any) -> None:
    """Check that flits damaged before the first clean one and during INIT are recovered."""
    for seed in range(6 * count_scale()):
        bench = link_testbench.RetryTestbench(dut, seed, 1 + seed % 7, tracked=False)
        rng = random.Random(seed)
        bench.to_device = random_damage(rng, 0.3)
        bench.to_host = random_damage(rng, (0.0, 0.3, 1.0)[seed % 3])
        await bench.start()
        bench.fill(5)
        await bench.clocks(rng.randrange(20, 300))
        bench.to_device = bench.to_host = None
        await bench.delivered(60 * link_testbench.RETRY_TIMEOUT)


@cocotb.parametrize(multi=[False, True])
@link_test
async def phy_reinit_at_any_moment(dut: Any, multi: bool) -> None:
    """Check that messages survive a physical layer that goes down in every state of the retry."""
    rng = random.Random(cocotb.RANDOM_SEED + multi)
    bench = link_testbench.RetryTestbench(dut, rng.getrandbits(32), 3)
    bench.tracker, bench.auto_phy = None, False
    await bench.up()
    dut.multi_header.value = multi
    bench.to_device, bench.to_host = random_damage(rng, 0.02), random_damage(rng, 0.02)
    bench.ready_rate = 0.4 if multi else 1.0
    bench.fill(60 * count_scale())
    states: set[int] = set()
    drops = 0
    for _ in range(4000):
        if bench.complete:
            break
        for _ in range(rng.randrange(1, 60)):
            await bench.clock()
            # The RETRY.Ack that is owed then must not leave afterwards.
            if bench.status()["rrsm"] and rng.random() < 0.1:
                break
        states.add(bench.lrsm)
        bench.set_phy(False)
        drops += 1
        await bench.clocks(rng.randrange(1, 6))
        bench.set_phy(True)
    await bench.completed(60 * link_testbench.RETRY_TIMEOUT)
    bench.to_device = bench.to_host = None
    await bench.clocks(3 * link_testbench.RETRY_TIMEOUT)
    bench.check()
    assert bench.lrsm == link_testbench.NORMAL
    assert {link_testbench.NORMAL, link_testbench.LOCAL_IDLE} <= states
    assert bench.events["phy_reinit"] >= drops // 2
    dut._log.info("%d drops, states %s, %s", drops, states, bench.events)


@link_test
async def exhaustion_and_reset(dut: Any) -> None:
    """Check ABORT after ten times 10 retries and a retrain, and that a reset restores the link.

    In ABORT the link is quiet, and the core can still deliver its responses.
    """
    bench = link_testbench.RetryTestbench(dut, 5)
    bench.tracker, bench.auto_phy = None, False
    await bench.up()
    bench.fill(40)
    await bench.clocks(20)
    bench.muted = True
    bench.raw.append((PID, 1 << 520))  # a bad CRC; nobody answers the requests
    bench.answer_random(120, 120)  # more than leave: queues are full at the abort
    start, retrains, down_for, before = len(bench.tx_log), 0, 0, bench.events["phy_reinit"]
    for _ in range(130 * (link_testbench.RETRY_TIMEOUT + 60)):
        await bench.clock()
        if bench.lrsm == link_testbench.ABORT:
            break
        if int(dut.retrain_request.value) and bench.phy:
            assert bench.lrsm == link_testbench.PHY_REINIT
            retrains += 1
            await bench.clocks(3)
            assert int(dut.retrain_request.value), "held until the physical layer answers"
            bench.phy, down_for = False, 4
            dut.phy_up.value = 0
        elif down_for:
            down_for -= 1
            if not down_for:
                bench.phy = True
                dut.phy_up.value = 1
    assert bench.lrsm == link_testbench.ABORT
    asked = bench.requests(start)
    assert retrains == 10
    assert bench.events["phy_reinit"] - before == 10
    assert [(c.num_retry, c.num_phy_reinit) for c in asked] == [
        (n, p) for p in range(11) for n in range(1, 11)
    ]
    assert bench.errors == [_ERR_CRC, _ERR_ABORT]
    assert bench.status()["aborted"]
    assert not int(dut.link_up.value)
    await bench.clocks(5)
    # Quiet, whatever comes in; the core can get rid of its answers.
    sent = len(bench.tx_log)
    bench.put(*FRAMES, control.RetryAck(False, False, 10, 0, 0, 60), control.RetryIdle())
    bench.answer_random(20, 20)
    await bench.clocks(200)
    assert len(bench.tx_log) == sent
    assert not bench.out_ndr
    assert not bench.out_drs
    assert not int(dut.retrain_request.value)
    assert bench.errors == [_ERR_CRC, _ERR_ABORT], "told once"
    fresh = link_testbench.RetryTestbench(dut, 6)
    await fresh.start()
    fresh.fill(30)
    await fresh.delivered(2000)
    assert fresh.lrsm == link_testbench.NORMAL
    assert fresh.events["retry_local"] == 0


@link_test
async def replay_begins_with_adf(dut: Any) -> None:
    """Check the replay of a lost all-data flit, both ways, also while the device wants a retry."""
    hits: Counter[str] = Counter()
    frame = seal(control.encode_control(control.RetryFrame()))

    async def play(seed: int) -> None:
        bench = link_testbench.RetryTestbench(dut, seed, 1 + seed % 6)
        await bench.start()
        host = bench.host
        places: list[int] = []

        def to_host(wire: WireFlit) -> WireFlit:
            if host.unpacker.owed <= 3:
                return wire
            if host.retry.lrsm is Lrsm.NORMAL:
                if bench.rng.random() < 0.4:
                    hits["lost by the host"] += 1
                    return wire[0], wire[1] ^ 1 << bench.rng.randrange(528)
            elif host.retry._frames >= 5 and flits.is_control(wire[1]):
                kind, wrong = control.decode_control(wire[1] & PAYLOAD_MASK)
                if isinstance(kind, control.RetryAck) and not wrong:
                    hits["replays from data"] += 1
                    places.append(bench.arrived)
            return wire

        def to_device(wire: WireFlit) -> WireFlit:
            newest = host.buffer._entries[host.buffer.wr_ptr - 1]
            data = newest == (wire[1], True) and host.retry.lrsm is Lrsm.NORMAL
            # While the host waits for its replay the device gets an error, too.
            late = host.retry.lrsm is Lrsm.LOCAL_IDLE and host.retry.timeout < 8
            if bench.rng.random() < 0.4 * data + 0.05 * late:
                hits["lost by the device"] += data
                return wire[0], wire[1] ^ 1 << bench.rng.randrange(528)
            return wire

        bench.to_host, bench.to_device = to_host, to_device
        bench.fill(60, tricky=0.8)
        await bench.delivered(100 * link_testbench.RETRY_TIMEOUT)
        # The device sends after such a RETRY.Ack: the data, then its own sequence.
        log = [flit for _, flit in bench.tx_log]
        for i in places:
            # The data may look like a sixth RETRY.Frame.
            assert log[i + 1 : i + 6] != [frame] * 5 or log[i + 6] == frame
            hits["own retry pending"] += log[i + 2 : i + 7] == [frame] * 5

    for seed in range(4 * count_scale()):
        await play(seed)
    dut._log.info("%s", dict(hits))
    assert hits["lost by the device"]
    assert hits["replays from data"] >= hits["lost by the host"] > 0
    assert hits["own retry pending"]


@cocotb.parametrize(multi=[False, True])
@link_test
async def rates(dut: Any, multi: bool) -> None:
    """Check rates without faults: 4 lines per 5 flits, and 8 per 9 for reads with multi-headers."""
    bench = await link_testbench.RetryTestbench(dut, 2).up()
    dut.multi_header.value = multi
    await bench.clocks(60)
    lines = 400
    bench.answer_random(drs=lines)
    used, clocks = await bench.completed(8 * lines)
    dut._log.info("read: %d lines in %d flits, %d clocks", lines, used, clocks)
    best = lines * 9 // 8 if multi else lines * 5 // 4
    # With a small buffer or few credits they come back too late.
    slack = (
        0 if link_testbench.RETRY_DEPTH >= 64 and link_testbench.RWD_CREDITS >= 32 else 2 * lines
    )
    assert used <= best + 6 + slack
    assert clocks <= best + 16 + slack
    if not multi:
        for _ in range(lines):
            bench.send(M2SRwD(RwdOp.MEM_WR, 1, 64, data=bench.rng.randbytes(64)))
        _, clocks = await bench.completed(8 * lines)
        dut._log.info("write: %d lines in %d clocks", lines, clocks)
        assert clocks <= best + 16 + slack
    # Mixed with NDRs.
    bench.answer_random(lines, lines)
    used, clocks = await bench.completed(8 * lines)
    dut._log.info("mixed: %d DRS + NDR in %d flits, %d clocks", lines, used, clocks)
    assert clocks <= lines * 5 // 4 + 16 + slack
    bench.check()
    assert not any(v for k, v in bench.events.items() if k not in ("rx_flit", "tx_flit"))


@link_test
async def no_answer_is_lost_in_the_last_flit(dut: Any) -> None:
    """Check that damage of the last flit of a burst starts a retry though no other flit follows."""
    bench = await link_testbench.RetryTestbench(dut, 8).up()
    for n in range(30 * count_scale()):
        await bench.clocks(bench.rng.randrange(1, 80))
        hit = bench.rng.random() < 0.5
        once = [random_damage(bench.rng, 1.0)]

        def first_only(wire: tuple[int, int], once: list[Damage] = once) -> tuple[int, int]:
            if once and not flits.is_control(wire[1]):
                return once.pop()(wire)
            return wire

        bench.to_device, bench.to_host = (first_only, None) if hit else (None, first_only)
        bench.send(M2SReq(ReqOp.MEM_RD, n, n << 6))
        bench.answer(S2MNDR(0, n))
        await bench.delivered(10 * link_testbench.RETRY_TIMEOUT)
