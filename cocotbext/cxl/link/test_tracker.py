# SPDX-License-Identifier: Apache-2.0
"""Tests of the link tracker: no error on good traffic, and exactly one error per broken rule."""

import random
from collections.abc import Callable

import pytest

from cocotbext.cxl.link.conftest import Change, LinkBench
from cocotbext.cxl.link.flit_event import FlitKind
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire.conftest import random_requests
from cocotbext.cxl.wire.control import (
    ControlFlit,
    InitParam,
    Llcrd,
    RetryAck,
    RetryFrame,
    RetryIdle,
    RetryReq,
    encode_control,
)
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, seal
from cocotbext.cxl.wire.flits import Direction, ProtocolCode, WireFlit
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SReq, M2SRwD, ReqOp, RwdOp
from cocotbext.cxl.wire.packer import PackOptions

PID = ProtocolCode.CACHEMEM.word
M2S, S2M = Direction.M2S, Direction.S2M


class Tracked(LinkBench):
    """Bench of host and device whose flits a LinkTracker checks."""

    tracker: LinkTracker

    def __init__(self, seed: int = 0, retry: bool = False, dense: bool = True) -> None:
        pack = PackOptions(dense=dense, rng=random.Random(seed))
        plain = LinkBench.make(seed, retry=retry, retry_timeout=100, pack=pack)
        super().__init__(plain.stub, plain.config, LinkTracker(retry))

    def says(self, direction: Direction, *payloads: int | ControlFlit) -> None:
        """Show control flits or payloads that no link layer has sent to the tracker.

        Their CRC is good.
        """
        for one in payloads:
            payload = one if isinstance(one, int) else encode_control(one)
            self.observe(direction, (PID, seal(payload)))

    def rules(self) -> list[str]:
        self.tracker.finish(self.clock)
        return [text.split(": ")[1] for text in self.tracker.errors]


def up(retry: bool = False) -> Tracked:
    bench = Tracked(retry=retry)
    bench.up()
    return bench


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_good_traffic(seed: int, dense: bool, retry: bool) -> None:
    bench = Tracked(seed, retry, dense)
    bench.answered(random_requests(random.Random(seed), 200))
    assert bench.rules() == []
    assert bench.seen == 400
    assert bench.tracker.idle


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("where", ["down", "up", "behind"])
def test_retry_on_every_side(seed: int, where: str) -> None:
    """Check that damaged flits are repeated, and that the tracker sees each message once.

    ``where`` says where they are damaged: on the pins to the device, on the pins to the host, or
    after the pins. The tracker reports only CRC errors on the pins.
    """
    rng = random.Random(seed)
    rate = (0.01, 0.04, 0.1)[seed % 3]

    def damage(flit: WireFlit) -> WireFlit:
        return (flit[0], flit[1] ^ 1 << rng.randrange(528)) if rng.random() < rate else flit

    bench = Tracked(seed, True, bool(seed & 2))
    bench.delay = dict.fromkeys(Direction, rng.randrange(12))
    hooks = bench.after_pins if where == "behind" else bench.at_pins
    hooks[M2S if where == "down" else S2M] = damage
    bench.answered(random_requests(rng, 200))
    assert bench.seen == 400
    expected = {"M2S crc"} if where == "down" else {"S2M crc"} if where == "up" else set()
    assert set(bench.rules()) == expected
    assert bench.host.retry.num_retry == 0
    assert (FlitKind.REPLAYED if where == "behind" else FlitKind.DISCARDED) in bench.kinds
    assert max(bench.host.unacknowledged, bench.device.unacknowledged) <= 2


WRONG: list[tuple[ControlFlit | int, str]] = [
    (Llcrd(0, rsp_crd=9), "S2M credit_field"),  # credits of the device
    (Llcrd(0, data_crd=1), "S2M credit_field"),  # cache credits
    (InitParam(63), "S2M init"),  # a second one
    (Llcrd(100), "S2M ack"),
    (RetryFrame(), "S2M retry"),  # retry is off
    (encode_control(RetryIdle()) | 1 << 77, "S2M static_bits"),
    (1 | 7 << 32, "S2M static_bits"),  # unknown
]


@pytest.mark.parametrize(("flit", "rule"), WRONG)
def test_wrong_control_flit(flit: ControlFlit | int, rule: str) -> None:
    bench = up()
    bench.says(S2M, flit)
    assert bench.rules() == [rule]


@pytest.mark.parametrize(
    ("pid", "flip", "rules"),
    [
        (0x5500, 0, ["S2M protocol_id"]),
        (0x0000, 0, ["S2M protocol_id"]),
        (0xCCCC, 0, ["S2M protocol_id"]),
        (0x9999, 0, []),
        (0x8787, 0, []),
        (PID, 1 << 520, ["S2M crc"]),
        (PID, 1 << 40, ["S2M crc"]),
    ],
)
def test_wrong_frame(pid: int, flip: int, rules: list[str]) -> None:
    bench = up()
    bench.observe(S2M, (pid, seal(encode_control(RetryIdle())) ^ flip))
    assert bench.rules() == rules


def test_initialisation_order() -> None:
    bench = Tracked()
    bench.says(S2M, InitParam(63))  # nothing clean has come yet
    bench.says(M2S, RetryIdle())
    bench.says(S2M, Llcrd())  # before our INIT
    assert bench.rules() == ["S2M init", "S2M init"]
    bench = Tracked()
    bench.tracker.device_wrap = 31
    bench.says(M2S, RetryIdle())
    bench.says(S2M, InitParam(63))
    assert "wrap 63" in bench.tracker.errors[0]


def _ndr_first(payload: int) -> bool:
    """Return True for a protocol flit with H4 in slot 0, a valid first NDR and no data."""
    return payload >> 5 & 7 == 4 and not payload & 1 and bool(payload >> 32 & 1)


def _once(change: Callable[[int], int]) -> Change:
    """Return a hook that changes the payload of the first flit with an NDR in slot 0."""
    left = [True]

    def apply(flit: WireFlit) -> WireFlit:
        payload = flit[1] & PAYLOAD_MASK
        if left[0] and _ndr_first(payload):
            left[0] = False
            return flit[0], seal(change(payload))
        return flit

    return apply


def _one_write(bench: Tracked) -> None:
    bench.host.send(M2SRwD(RwdOp.MEM_WR, 5, 64, data=bytes(64)))
    bench.steps(400)


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (lambda p: p, []),
        (lambda p: p ^ 1 << 40, ["S2M response", "S2M end"]),  # another tag
        (lambda p: p ^ 1 << 56, ["S2M response", "S2M end"]),  # another LD-ID
        (lambda p: p ^ 1 << 32, ["S2M end"]),  # no longer valid
        (lambda p: p | 3 << 33, ["S2M message"]),  # reserved opcode
        (lambda p: p & ~(3 << 36), ["S2M message"]),  # MetaField
        (lambda p: p | 1 << 1, ["S2M framing"]),  # reserved header bit
        (lambda p: p | 1 << 3, ["S2M framing"]),  # BE
        (lambda p: p | 1 << 120, ["S2M framing"]),  # reserved slot bit
        (lambda p: p & ~(7 << 8), ["S2M framing"]),  # G0, no data owed
        (lambda p: p & ~(7 << 8) | 4 << 8, ["S2M framing"]),  # empty slot as G4
        (lambda p: p | 7 << 8, ["S2M framing"]),  # reserved format
        (lambda p: p & ~(7 << 5) | 3 << 5, None),  # DRS instead of NDR
        (lambda p: p | 9 << 20, ["S2M credit_field"]),
    ],
)
def test_broken_response(change: Callable[[int], int], rules: list[str] | None) -> None:
    bench = up()
    bench.at_pins[S2M] = _once(change)
    _one_write(bench)
    if rules is None:  # it takes what follows for the missing data: many rules
        assert bench.rules()[0] == "S2M framing"
    else:
        assert bench.rules() == rules


@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("way", [M2S, S2M])
def test_credit_overdraft(way: Direction, data: bool) -> None:
    """Check that each channel of each direction may use no more than its own credits."""
    bench = up()
    (bench.device if way is M2S else bench.host).config.return_delay = (10**6, 10**6)
    credits = (bench.host if way is M2S else bench.device).credits
    credits.data, credits.plain = credits.data + 1000 * data, credits.plain + 1000 * (not data)
    had = bench.tracker.m2s if way is M2S else bench.tracker.s2m
    room = had.data if data else had.plain
    for tag in range(room + 20):
        if way is M2S:
            bench.host.send(M2SRwD(RwdOp.MEM_WR, tag, 0) if data else M2SReq(ReqOp.MEM_RD, tag, 0))
        else:
            bench.tracker.outstanding[data, tag, 0] += 1
            bench.device.send(S2MDRS(0, tag) if data else S2MNDR(0, tag))
    bench.steps(300)
    found = [text for text in bench.tracker.errors if f"{way.value} credit" in text]
    assert len(found) > 0
    assert set(bench.rules()) <= {f"{way.value} credit", "S2M end"}


def test_response_twice() -> None:
    bench = up()
    _one_write(bench)
    bench.device.send(S2MNDR(0, 5))
    bench.steps(300)
    assert bench.rules() == ["S2M response"]


def test_missing_acknowledgements_and_data() -> None:
    bench = up()
    bench.device.config.ack_force_threshold = bench.device.config.flush_retimer = 10**6
    _one_write(bench)
    _one_write(bench)
    assert bench.rules() == ["S2M ack"]
    half = up()
    half.host.packer.push(M2SRwD(RwdOp.MEM_WR, 6, 64))
    half.step()
    half.tracker.finish(half.clock)
    assert half.rules().count("M2S end") == 2  # twice finished


FRAMES = [RetryFrame()] * 5
RETRY_RULES: list[tuple[str, Callable[[int, int], list[tuple[Direction, ControlFlit]]], str]] = [
    # (what is wrong, flits by the number of M2S and S2M flits that were accepted, rule)
    ("four frames", lambda m2s, _: _said(S2M, *FRAMES[1:], RetryReq(m2s, 1)), "S2M retry"),
    ("all are accepted", lambda m2s, _: _said(S2M, *FRAMES, RetryReq(m2s - 1, 1)), "S2M retry"),
    (
        "nobody asked",
        lambda _m2s, _: _said(S2M, *FRAMES, RetryAck(True, eseq=1, wr_ptr=1)),
        "S2M retry",
    ),
    ("frames alone", lambda _m2s, _: _said(S2M, RetryFrame(), RetryIdle()), "S2M retry"),
    ("NUM_RETRY is not echoed", lambda _, s2m: _replay(s2m, num_retry=2), "S2M retry"),
    ("Empty, with a flit", lambda _, s2m: _replay(s2m, empty=True), "S2M retry"),
    (
        "another flit is replayed",
        lambda _, s2m: _replay(s2m) + _said(S2M, Llcrd(0, req_crd=9, data_crd=15)),
        "S2M replay",
    ),
]


def _said(direction: Direction, *flits: ControlFlit) -> list[tuple[Direction, ControlFlit]]:
    return [(direction, flit) for flit in flits]


def _replay(
    s2m: int, num_retry: int = 1, empty: bool = False
) -> list[tuple[Direction, ControlFlit]]:
    """Return a RETRY.Req of the host for the last S2M flit, then the device's RETRY.Ack.

    RETRY.Frame flits precede both.
    """
    ack = RetryAck(empty, num_retry=num_retry, eseq=s2m - 1, wr_ptr=s2m)
    return _said(M2S, *FRAMES, RetryReq(s2m - 1, 1)) + _said(S2M, *FRAMES, ack)


@pytest.mark.parametrize(("_name", "flits", "rule"), RETRY_RULES)
def test_retry_rules(
    _name: str, flits: Callable[[int, int], list[tuple[Direction, ControlFlit]]], rule: str
) -> None:
    bench = up(retry=True)
    for direction, flit in flits(bench.tracker.m2s.accepted, bench.tracker.s2m.accepted):
        bench.says(direction, flit)
    assert bench.rules() == [rule]


def test_waived_rules_are_kept_apart() -> None:
    tracker = LinkTracker(waive=lambda rule, direction: (rule, direction) == ("crc", "M2S"))
    tracker.observe(M2S, PID, 1, 1)
    tracker.observe(S2M, PID, 1, 1)
    assert [text.split(": ")[1] for text in tracker.errors] == ["S2M crc"]
    assert len(tracker.waived) == 1
    assert tracker.counters["CRC_ERROR"] == 1


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("clean", [False, True])
def test_a_retrain_freezes_a_link_with_retry_that_was_up(retry: bool, clean: bool) -> None:
    tracker = LinkTracker(retry)
    tracker.m2s.clean_seen = clean
    tracker.phy_down()
    assert tracker.m2s.frozen is tracker.m2s.uncertain is (retry and clean)


@pytest.mark.parametrize("quiet", [200, 201])
@pytest.mark.parametrize("owed", [1, 2])
def test_acknowledgements_that_are_owed_at_the_end(quiet: int, owed: int) -> None:
    for way in Direction:
        tracker = LinkTracker(True)
        one = tracker.m2s if way is M2S else tracker.s2m
        one.accepted, one.acked, one.last = 5 + owed, 5, 3
        tracker.finish(3 + quiet)
        assert bool(tracker.errors) is (quiet > 200 and owed > 1)
