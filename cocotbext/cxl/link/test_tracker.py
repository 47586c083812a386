# SPDX-License-Identifier: Apache-2.0
"""Link tracker: no error on good traffic, and exactly one error for one broken rule."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink, HostLink, WireFlit
from cocotbext.cxl.link.tracker import FlitKind, LinkTracker
from cocotbext.cxl.wire.control import (
    ControlFlit,
    InitParam,
    Llcrd,
    RetryAck,
    RetryFrame,
    RetryIdle,
    RetryReq,
    decode_control,
    encode_control,
)
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, seal
from cocotbext.cxl.wire.flits import Direction, ProtocolCode, is_control
from cocotbext.cxl.wire.messages import (
    S2MDRS,
    S2MNDR,
    M2SMessage,
    M2SReq,
    M2SRwD,
    ReqOp,
    RwdOp,
    S2MMessage,
)
from cocotbext.cxl.wire.packer import PackOptions

PID = ProtocolCode.CACHEMEM.word
Change = Callable[[WireFlit], WireFlit]


@dataclass
class Pair:
    """Host and device with the tracker on the pins between them."""

    seed: int = 0
    retry: bool = False
    dense: bool = True
    at_pins_down: Change | None = None
    at_pins_up: Change | None = None
    behind_pins: Change | None = None
    responses: list[S2MMessage] = field(default_factory=list)
    seen: list[S2MMessage | M2SMessage] = field(default_factory=list)
    kinds: set[FlitKind] = field(default_factory=set)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)

        def config() -> LinkConfig:
            pack = PackOptions(dense=self.dense, multi_header=bool(self.seed & 1), rng=rng)
            return LinkConfig(pack=pack, rng=rng, retry=self.retry, retry_timeout=100)

        self.host = HostLink(config())
        self.stub = DeviceStub(DeviceLink(config()), (1, 9), rng)
        self.device = self.stub.link
        self.tracker = LinkTracker(self.retry)
        self.clock = 0

    def step(self) -> None:
        self.clock += 1
        down, up = self.host.next_flit(), self.stub.next_flit()
        if down is not None:
            down = self.at_pins_down(down) if self.at_pins_down else down
            self._watch(Direction.M2S, down)
            self.stub.receive(*down)
        if up is not None:
            up = self.at_pins_up(up) if self.at_pins_up else up
            self._watch(Direction.S2M, up)
            up = self.behind_pins(up) if self.behind_pins else up
            self.responses += self.host.receive(*up)

    def _watch(self, direction: Direction, flit: WireFlit) -> None:
        event = self.tracker.observe(direction, *flit, self.clock)
        self.kinds.add(event.kind)
        self.seen += event.messages

    def up_link(self) -> None:
        for _ in range(20):
            self.step()
        assert self.host.active

    def device_says(self, payload: int) -> None:
        """Put a flit of the device on the pins that its link layer did not send."""
        self._watch(Direction.S2M, (PID, seal(payload)))

    def host_says(self, payload: int) -> None:
        self._watch(Direction.M2S, (PID, seal(payload)))

    def run(self, count: int) -> None:
        rng = random.Random(self.seed)
        for tag in range(count):
            addr = 64 * rng.randrange(9)
            if rng.randrange(2):
                self.host.send(M2SReq(ReqOp.MEM_RD, tag, addr))
            elif rng.randrange(2):
                self.host.send(M2SRwD(RwdOp.MEM_WR, tag, addr, data=rng.randbytes(64)))
            else:
                be = rng.getrandbits(64)
                self.host.send(M2SRwD(RwdOp.MEM_WR_PTL, tag, addr, data=rng.randbytes(64), be=be))
        for _ in range(30000):
            self.step()
            if len(self.responses) == count:
                break
        for _ in range(400):
            self.step()

    def rules(self) -> list[str]:
        self.tracker.finish(self.clock)
        return [text.split(": ")[1] for text in self.tracker.errors]


@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_good_traffic(seed: int, dense: bool, retry: bool) -> None:
    pair = Pair(seed, retry, dense)
    pair.run(200)
    assert pair.rules() == []
    assert len(pair.seen) == 400
    assert pair.tracker.idle


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("where", ["down", "up", "behind"])
def test_retry_on_every_side(seed: int, where: str) -> None:
    """Check that each message is seen once and in time wherever flits are lost; only crc is
    reported.
    """
    rng = random.Random(seed)

    def damage(flit: WireFlit) -> WireFlit:
        return (flit[0], flit[1] ^ 1 << rng.randrange(528)) if rng.random() < 0.04 else flit

    pair = Pair(seed, True, bool(seed & 2))
    if where == "down":
        pair.at_pins_down = damage
    elif where == "up":
        pair.at_pins_up = damage
    else:
        pair.behind_pins = damage
    pair.run(200)
    assert len(pair.responses) == 200
    assert len(pair.seen) == 400
    expected = {"M2S crc"} if where == "down" else {"S2M crc"} if where == "up" else set()
    assert set(pair.rules()) == expected
    assert pair.host.retry.num_retry == 0
    if where == "behind":
        assert FlitKind.REPLAYED in pair.kinds
    else:
        assert FlitKind.DISCARDED in pair.kinds


def _once(change: Callable[[int], int], pick: Callable[[int], bool]) -> Change:
    """Return a hook that changes the payload of the first matching flit."""
    left = [True]

    def apply(flit: WireFlit) -> WireFlit:
        payload = flit[1] & PAYLOAD_MASK
        if left[0] and pick(payload):
            left[0] = False
            return flit[0], seal(change(payload))
        return flit

    return apply


def _ndr_first(payload: int) -> bool:
    """Match a protocol flit with a valid first NDR in slot 0 (H4) and no data."""
    return payload >> 5 & 7 == 4 and not payload & 1 and bool(payload >> 32 & 1)


CONTROL: dict[str, tuple[ControlFlit, str]] = {
    "credits of the device": (Llcrd(0, rsp_crd=9), "S2M credit_field"),
    "cache credits": (Llcrd(0, data_crd=1), "S2M credit_field"),
    "second INIT": (InitParam(63), "S2M init"),
    "surplus ack": (Llcrd(100), "S2M ack"),
    "retry off": (RetryFrame(), "S2M retry"),
}


@pytest.mark.parametrize("name", CONTROL)
def test_wrong_control_flit(name: str) -> None:
    pair = Pair()
    pair.up_link()
    flit, rule = CONTROL[name]
    pair.device_says(encode_control(flit))
    assert pair.rules() == [rule]


def test_static_bit_and_unknown_control() -> None:
    pair = Pair()
    pair.up_link()
    pair.device_says(encode_control(RetryIdle()) | 1 << 77)
    pair.device_says(1 | 7 << 32)
    assert pair.rules() == ["S2M static_bits"] * 2


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
    pair = Pair()
    pair.up_link()
    idle = seal(encode_control(RetryIdle()))
    pair.tracker.observe(Direction.S2M, pid, idle ^ flip, 50)
    assert pair.rules() == rules


def test_initialisation_order() -> None:
    tracker = LinkTracker()
    param = seal(encode_control(InitParam(63)))
    tracker.observe(Direction.S2M, PID, param, 1)  # nothing clean has come yet
    tracker.observe(Direction.M2S, PID, seal(encode_control(RetryIdle())), 2)
    tracker.observe(Direction.S2M, PID, seal(encode_control(Llcrd())), 3)  # before our INIT
    assert [text.split(": ")[1] for text in tracker.errors] == ["S2M init", "S2M init"]
    wrap = LinkTracker(device_wrap=31)
    wrap.observe(Direction.M2S, PID, seal(encode_control(RetryIdle())), 1)
    wrap.observe(Direction.S2M, PID, param, 2)
    assert "wrap 63" in wrap.errors[0]


def _one_write(pair: Pair) -> None:
    pair.up_link()
    pair.host.send(M2SRwD(RwdOp.MEM_WR, 5, 64, data=bytes(64)))
    for _ in range(400):
        pair.step()


@pytest.mark.parametrize(
    ("change", "rules"),
    [
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
    pair = Pair()
    pair.at_pins_up = _once(change, _ndr_first)
    _one_write(pair)
    if rules is None:  # it takes what follows for the missing data: many rules
        assert pair.rules()[0] == "S2M framing"
    else:
        assert pair.rules() == rules


def test_the_same_without_a_change() -> None:
    pair = Pair()
    pair.at_pins_up = _once(lambda p: p, _ndr_first)
    _one_write(pair)
    assert pair.rules() == []


@pytest.mark.parametrize("side", ["device", "host"])
def test_credit_overdraft(side: str) -> None:
    pair = Pair()
    pair.up_link()
    cheat = pair.device if side == "device" else pair.host
    for tag in range(80):
        if side == "device":
            pair.tracker.outstanding[True, tag, 0] += 1
            pair.device.send(S2MDRS(0, tag))
        else:
            pair.host.send(M2SRwD(RwdOp.MEM_WR, tag, 0))
    cheat.credits.data += 1000
    if side == "host":
        pair.device.config.return_delay = (10**6, 10**6)
    else:
        pair.host.config.return_delay = (10**6, 10**6)
    for _ in range(300):
        pair.step()
    way = "S2M" if side == "device" else "M2S"
    assert set(pair.rules()) == {f"{way} credit"}


def test_response_twice() -> None:
    pair = Pair()
    _one_write(pair)
    pair.device.send(S2MNDR(0, 5))
    for _ in range(300):
        pair.step()
    assert pair.rules() == ["S2M response"]


def test_missing_acknowledgements_and_data() -> None:
    pair = Pair()
    pair.up_link()
    pair.device.config.ack_force_threshold = pair.device.config.flush_retimer = 10**6
    _one_write(pair)
    pair.host.send(M2SRwD(RwdOp.MEM_WR, 6, 64))
    pair.host.credits.data = 5
    for _ in range(400):
        pair.step()
    assert pair.rules() == ["S2M ack"]
    half = Pair()
    half.up_link()
    half.host.packer.push(M2SRwD(RwdOp.MEM_WR, 6, 64))
    half.step()
    half.tracker.finish(half.clock)
    assert half.rules().count("M2S end") == 2  # twice finished


def _frames(pair: Pair, count: int, last: RetryReq | RetryAck, by_device: bool = True) -> None:
    say = pair.device_says if by_device else pair.host_says
    for flit in [RetryFrame()] * count + [last]:
        say(encode_control(flit))


def test_retry_rules() -> None:
    def fresh() -> Pair:
        pair = Pair(retry=True)
        pair.up_link()
        return pair

    accepted = fresh().tracker.m2s.accepted
    pair = fresh()
    _frames(pair, 4, RetryReq(accepted, 1))
    assert pair.rules() == ["S2M retry"]
    pair = fresh()
    _frames(pair, 5, RetryReq(accepted - 1, 1))  # it has accepted them all
    assert pair.rules() == ["S2M retry"]
    pair = fresh()
    _frames(pair, 5, RetryAck(True, eseq=1, wr_ptr=1))  # nobody asked
    assert pair.rules() == ["S2M retry"]
    pair = fresh()
    pair.device_says(encode_control(RetryFrame()))
    pair.device_says(encode_control(RetryIdle()))
    assert pair.rules() == ["S2M retry"]
    pair = fresh()
    sent = pair.tracker.s2m.accepted
    _frames(pair, 5, RetryReq(sent - 1, 1), by_device=False)
    _frames(pair, 5, RetryAck(False, num_retry=2, eseq=sent - 1, wr_ptr=sent))
    assert pair.rules() == ["S2M retry"]  # NUM_RETRY is not echoed
    pair = fresh()
    _frames(pair, 5, RetryReq(sent - 1, 1), by_device=False)
    _frames(pair, 5, RetryAck(False, num_retry=1, eseq=sent - 1, wr_ptr=sent))
    pair.device_says(encode_control(Llcrd(0, req_crd=9, data_crd=15)))  # another flit
    assert pair.rules() == ["S2M replay"]


def test_waived_rules_are_kept_apart() -> None:
    tracker = LinkTracker(waive=lambda rule, direction: (rule, direction) == ("crc", "M2S"))
    tracker.observe(Direction.M2S, PID, 1, 1)
    tracker.observe(Direction.S2M, PID, 1, 1)
    assert [text.split(": ")[1] for text in tracker.errors] == ["S2M crc"]
    assert len(tracker.waived) == 1
    assert tracker.counters["CRC_ERROR"] == 1
    assert is_control(1)
    assert decode_control(1)[1]
