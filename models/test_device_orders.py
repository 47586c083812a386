# SPDX-License-Identifier: Apache-2.0
"""Tests of the device model's features for the scoreboard: keys, snapshots, texts, speed."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocotbext.cxl.wire.messages import M2SMessage, M2SReq, M2SRwD, ReqOp, RwdOp
from models.commit_check import CommitCode
from models.conftest import MEMORY_LINES, PARAMS, DeviceFixture, config
from models.device import DeviceModel
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig

MODES = [Mode.IDENTITY, Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32]


def layout() -> list[RegionConfig]:
    """Return a small region for each of IDENTITY, G_BINARY, G_TERNARY and FP32."""
    return [
        config(mode, base=(MEMORY_LINES + 1024 * i) * 64, state_base=64 * 1024 * i, strict=i == 2)
        for i, mode in enumerate(MODES)
    ]


def traffic(rnd: random.Random, count: int) -> list[M2SMessage]:
    """Return ``count`` random messages of every kind on a few lines of the regions of `layout`."""
    regions = layout()
    out: list[M2SMessage] = []
    for tag in range(count):
        one = rnd.choice(regions)
        write = rnd.random() < 0.6
        selector = rnd.choice([0, 1, 2, 0, 1, 2, 3] if write else [0, 1, 8, 9, 64, 65, 200])
        addr = one.address(selector, rnd.randrange(2))
        if rnd.random() < 0.15:
            addr = rnd.choice([64 * 900, 64 * 1024, (1 << 52) - 64])
        if write:
            opcode = rnd.choice([RwdOp.MEM_WR] * 5 + [RwdOp.MEM_WR_PTL, 5])
            be = rnd.getrandbits(64) if opcode == RwdOp.MEM_WR_PTL else (1 << 64) - 1
            poison = rnd.random() < 0.1
            data = rnd.randbytes(64)
            out.append(M2SRwD(opcode, tag, addr, data=data, be=be, poison=poison))
        else:
            out.append(M2SReq(rnd.choice([1, 1, 1, 2, 0, 3, 8]), tag, addr))
    return out


def model() -> DeviceModel:
    device = DeviceModel(DeviceParams(mem_lines_log2=12, cnt_w=1))
    for region, one in enumerate(layout()):
        assert device.commit(region, one, 1) == CommitCode.OK
    return device


def everything(device: DeviceModel) -> object:
    """Return what shows the device's state: status, counters, errors, and reads of all lines."""
    status = [device.region_status(r) for r in range(4)]
    flagged = [device.flagged_lines(r) for r in range(4)]
    assert all(s.complete_lines <= 2 for s in status)
    counters = dict(device.counters)
    errors = (list(device.refused), device.first_error)
    reads = [
        device.step_result(M2SReq(ReqOp.MEM_RD, 0, one.address(selector, line)))
        for one in layout()
        for selector in (0, 1, 2, 3, 4, 8, 9, 64, 65, 66)
        for line in range(2)
    ]
    return status, flagged, counters, errors, reads


def test_the_traffic_reaches_every_state() -> None:
    """Check that the random traffic reaches the states that the tests below need."""
    device = model()
    for msg in traffic(random.Random(5), 400):
        device.step(msg)
    status = [device.region_status(r) for r in range(4)]
    assert [s.complete_lines for s in status] == [0, 2, 2, 2]
    assert [s.saturated for s in status] == [False, True, True, False]
    assert status[2].illegal_seen
    missing = {name for name, count in device.counters.items() if not count}
    assert missing == {"LATE", "MEM_READ_ERROR", "MEM_WRITE_ERROR", "MEM_POISON"}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_restore_undoes_exactly_one_key(seed: int) -> None:
    """Check that restore() undoes the messages of one key, as if they had never been executed."""
    rnd = random.Random(seed)
    messages = traffic(rnd, 100)
    tried, plain = model(), model()
    for number, msg in enumerate(messages):
        key = tried.line_key(msg)
        racing = [m for m in messages[number:] if tried.line_key(m) == key][:4]
        snap = tried.snapshot(key)
        for other in racing:
            tried.step(other)
        if key is not None:
            elsewhere = next((m for m in messages if tried.line_key(m) not in (key, None)), None)
            if elsewhere is not None:  # a change on another key in between survives
                assert tried.step(elsewhere) == plain.step(elsewhere)
        tried.restore(key, snap)
        assert tried.step_result(msg) == plain.step_result(msg)
    assert everything(tried) == everything(plain)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_different_keys_are_independent(seed: int) -> None:
    """Check that responses do not depend on the order of messages with different keys."""
    rnd = random.Random(seed)
    messages = traffic(rnd, 60)
    one = model()
    answers = {m.tag: one.step_result(m) for m in messages}
    keys = {m.tag: one.line_key(m) for m in messages}
    groups: dict[object, list[M2SMessage]] = {}
    for m in messages:
        groups.setdefault(keys[m.tag], []).append(m)
    other = model()
    queues = list(groups.values())
    while queues:
        queue = rnd.choice(queues)
        msg = queue.pop(0)
        assert other.step_result(msg) == answers[msg.tag]
        queues = [q for q in queues if q]
    assert one.counters == other.counters
    assert [one.region_status(r) for r in range(4)] == [other.region_status(r) for r in range(4)]


def test_keys() -> None:
    device = model()
    identity, binary = layout()[:2]

    def key(addr: int) -> object:
        return device.line_key(M2SReq(ReqOp.MEM_RD, 0, addr))

    assert key(binary.address(0, 1)) == key(binary.address(9, 1)) != key(binary.address(0, 0))
    assert key(identity.address(0, 1)) != key(identity.address(1, 1))
    assert key(binary.address(200, 1)) is None
    assert device.line_key(M2SReq(ReqOp.MEM_INV, 0, binary.address(0, 1))) is None


def test_a_snapshot_does_not_outlive_a_commit_or_change_key() -> None:
    bench = DeviceFixture(config())
    key = bench.model.line_key(M2SReq(ReqOp.MEM_RD, 0, bench.config.address(0, 0)))
    other = bench.model.line_key(M2SReq(ReqOp.MEM_RD, 0, bench.config.address(0, 1)))
    snap = bench.model.snapshot(key)
    with pytest.raises(ValueError, match="cannot be restored"):
        bench.model.restore(other, snap)
    bench.recommit()
    with pytest.raises(ValueError, match="cannot be restored"):
        bench.model.restore(key, snap)
    with pytest.raises(ValueError, match="not a line key"):
        bench.model.snapshot("x")


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_explaining_changes_nothing(seed: int) -> None:
    messages = traffic(random.Random(seed), 30)
    talking, silent = model(), model()
    for msg in messages:
        text = talking.explain(msg)
        assert text.count("\n") == 1
        assert hex(msg.addr) in text
        assert talking.step_result(msg) == silent.step_result(msg)
    assert everything(talking) == everything(silent)


def test_explanations_name_the_reason() -> None:
    bench = DeviceFixture(config(Mode.FP32, strict=True, workers=6))
    at = bench.config.address

    def read(selector: int) -> str:
        return bench.model.explain(M2SReq(ReqOp.MEM_RD, 1, at(selector, 0)))

    assert "untouched in this epoch (0 of 6 workers)" in read(0)
    for worker in (0, 1, 2, 5):
        bench.write(worker, 0, bytes(64))
    text = read(0)
    assert "region 2 (FP32, n=4, W=6), selector 0, line 0" in text
    assert "4 of 6 workers seen (0-2,5)" in text
    assert "reads sum so far; early read, Poison=1 (early with STRICT)" in text
    assert "worker 3's own line (not written: zeros)" in read(67)
    assert "refused, SELECTOR" in read(9)
    bench.write(3, 0, bytes(64), poison=True)
    assert "line poisoned" in read(0)
    low = DeviceFixture(config())
    low.write(1, 0, bytes(64))
    again = M2SRwD(RwdOp.MEM_WR, 1, low.config.address(1, 0))
    assert "duplicate of worker 1" in low.model.explain(again)
    assert "opcode 7" in low.model.explain(M2SReq(7, 1, 0))
    low.model.lose_line(2, 0)
    assert "state lost" in low.model.explain(again)
    assert "ordinary memory line 0x0" in low.model.explain(M2SReq(1, 1, 0))


def test_fast_enough() -> None:
    """Check that the model executes 5,000 messages per second, a quarter of the wanted speed.

    Even a slow machine reaches it.
    """
    bench = DeviceFixture(config(workers=8, lines_log2=6, base=1 << 20, state_base=0), PARAMS)
    rnd = random.Random(1)
    at = bench.config.address
    messages: list[M2SMessage] = [
        M2SRwD(RwdOp.MEM_WR, 1, at(w, i), data=rnd.randbytes(64))
        for w in range(8)
        for i in range(64)
    ]
    messages += [M2SReq(ReqOp.MEM_RD, 1, at(s, i)) for s in (0, 8, 9, 10, 11) for i in range(64)]
    rounds = []
    for _ in range(3):
        bench.recommit()
        start = time.process_time()
        for msg in messages:
            bench.model.step(msg)
        rounds.append(time.process_time() - start)
    assert len(messages) / min(rounds) > 5000  # another process slows only some of the rounds
