# SPDX-License-Identifier: Apache-2.0
"""Testbenches of ``nf_link`` alone: flits at the pins, messages inside (link spec §1 to §9).

The host is the link partner of ``cocotbext.cxl`` with its credits and its retry; the core is a set
of queues. Every clock is one call of `clock()`, which samples before the edge and drives after it.

`RetryTestbench` is the testbench of random traffic: flits may be damaged on either wire and the
physical layer may go down; every message must arrive once, unchanged and in the order of its
channel, and LinkTracker checks every flit independently. `LinkTestbench` is the testbench of exact
flits and clocks: the wires have no delay, the host acknowledges and grants at once, and a test may
put further flits on the wire that the host accounts for.
"""

import functools
import random
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Self

import cocotb
from cocotb.regression import TestGenerator
from cocotb.triggers import RisingEdge, Timer

from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import HostLink
from cocotbext.cxl.link.tracker import LinkTracker
from cocotbext.cxl.wire import control, flits
from cocotbext.cxl.wire.crc import PAYLOAD_MASK, seal
from cocotbext.cxl.wire.flits import WireFlit
from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR, M2SReq, M2SRwD, RwdOp, S2MMessage
from cocotbext.cxl.wire.packer import Credits
from models.parameters import DeviceParams
from models.register_map import REG_MAP
from verif.parameters import build_parameters
from verif.tests import link_messages
from verif.tests.link_coverage import LinkObserver, link_test
from verif.tests.packed_structs import layout, sampled, unpack
from verif.tests.ports import tie_inputs

PARAMETERS = {**DeviceParams().as_rtl(), **build_parameters()}
REQ_CREDITS, RWD_CREDITS = PARAMETERS["REQ_CREDITS"], PARAMETERS["RWD_CREDITS"]
ALL_CREDITS = Credits(REQ_CREDITS, RWD_CREDITS)
"""Credits of the host when no request is in the device."""
RETRY_TIMEOUT, RETRY_DEPTH = PARAMETERS.get("RETRY_TIMEOUT", 4096), PARAMETERS["RETRY_DEPTH"]
NORMAL, LLRREQ, LOCAL_IDLE, PHY_REINIT, ABORT = range(5)


EVENTS, STATUS = layout("link_events_t"), layout("link_status_t")
_KIND = REG_MAP.enums["LinkError"]
_NAMES = {code: name for name, code in _KIND.items()}
_NO_STROBE = ("NONE", "ABORT")  # ABORT is reported with any strobe of its clock
_OWN_STROBE = {"crc_error": "CRC", "pid_uncorrectable": "PROTOCOL_ID"}


def count_events(total: dict[str, int], events: int, kind: int) -> None:
    """Add the event strobes of one clock to their totals, and check the kind of error.

    Args:
        total: number of strobes so far by name, changed in place.
        events: value of the port `events`.
        kind: error kind of the status port.
    """
    if events or kind:
        strobes = unpack(EVENTS, events)
        _check_error_kind(strobes, kind)
        for name, value in strobes.items():
            total[name] += value


def _check_error_kind(events: dict[str, int], kind: int) -> None:
    """Check that the reported kind of error agrees with the strobes: NONE exactly without a strobe.

    A flit is judged once: a bad CRC or Protocol ID hides what its content would be, and everything
    else that is wrong counts as a protocol error.
    """
    name = _NAMES[kind]
    strobe = next((one for one in _OWN_STROBE if events[one]), "")
    if strobe:
        allowed: tuple[str, ...] = (_OWN_STROBE[strobe], "ABORT")
    elif events["protocol_error"]:
        own = (*_OWN_STROBE.values(), "NONE")
        allowed = tuple(one for one in _KIND if one not in own)
    else:
        allowed = _NO_STROBE
    told = [one for one, value in events.items() if value]
    assert name in allowed, f"error kind {name} with the strobes {told}"


@dataclass
class Passed:
    """Messages that were sent, or that have arrived, by channel.

    Messages to the core (req, rwd) are values of their packed structures, responses are objects.
    """

    req: list[int] = field(default_factory=list)
    rwd: list[int] = field(default_factory=list)
    ndr: list[S2MNDR] = field(default_factory=list)
    drs: list[S2MDRS] = field(default_factory=list)

    def counts(self) -> list[int]:
        """Return the number of messages of each channel."""
        return [len(messages) for messages in vars(self).values()]


class RetryTestbench:
    """Testbench of random traffic: one `nf_link`, a `HostLink`, and queues in place of the core.

    Args:
        dut: Top ``nf_link``.
        seed: Seed of the testbench.
        delay: Clocks that a flit takes on either wire.
        tracked: LinkTracker checks every flit at the pins.
        config: Fields of LinkConfig; `grant` stands for the credits of both kinds.
    """

    def __init__(
        self, dut: Any, seed: int = 1, delay: int = 2, tracked: bool = True, **config: Any
    ) -> None:
        self.dut = dut
        self.rng = random.Random(seed)
        settings: dict[str, Any] = {"retry_timeout": RETRY_TIMEOUT, "rng": self.rng}
        if "grant" in config:
            settings["grant_plain"] = settings["grant_data"] = config.pop("grant")
        settings |= config
        self.host = HostLink(LinkConfig(retry=True, **settings))
        self.tracker: LinkTracker | None = None  # checks every flit at the pins
        if tracked:
            waived = ("crc", "protocol_id")
            self.tracker = LinkTracker(True, lambda rule, _way: rule in waived, RETRY_DEPTH - 1)
        self.delay = delay
        self.to_device: link_messages.Damage | None = None
        self.to_host: link_messages.Damage | None = None
        self.ready_rate = self.core_rate = self.rx_rate = 1.0
        self.raw: deque[WireFlit] = deque()  # put on the wire before anything of the host's
        self.muted = False  # the host says nothing
        self.auto_phy = True  # a retrain request of either end is granted
        self._phy_back = 0
        self.events = dict.fromkeys((name for name, _ in EVENTS), 0)
        self.errors: list[int] = []  # status.error_kind
        self.sent, self.got = Passed(), Passed()
        self.out_ndr: deque[S2MNDR] = deque()
        self.out_drs: deque[S2MDRS] = deque()
        self.drs_taken = 0  # DRS that the device has accepted from the core
        self.tx_log: list[tuple[int, int]] = []  # (clock, flit) at the pins
        self.last_sent: deque[tuple[object, int]] = deque(maxlen=6)  # (control flit, RRSM)
        self.arrived = 0  # place in tx_log of the flit that reaches the host next
        self.now = 0
        self.phy = True

    # ---- reset
    async def start(self, training: int = 0) -> None:
        """Reset the device and the host; phy_up rises after ``training`` clocks."""
        dut = self.dut
        tie_inputs(dut, "nf_link", phy_up=not training)
        dut.rst_n.value = 0
        await Timer(7, unit="ns")
        await RisingEdge(dut.clk)
        dut.rst_n.value = 1
        self.host.reset()
        if self.tracker:
            self.tracker.reset()
        config = self.host.config
        self.observer = LinkObserver(config.grant_plain, config.grant_data)
        self.down: deque[WireFlit | None] = deque([None] * self.delay)
        self.upward: deque[WireFlit | None] = deque([None] * self.delay)
        self.ndr: S2MNDR | None = None
        self.drs: S2MDRS | None = None
        self.ready = self.req_ready = self.rwd_ready = False
        self.phy = True
        self.stalled: int | None = None
        self.driven: WireFlit | None = None
        self.driven_flits, self._arriving = 0, False
        for _ in range(training):
            await RisingEdge(dut.clk)
        dut.phy_up.value = 1

    async def up(self, settle: int = 0) -> Self:
        """Reset, wait until both ends have credits, and ``settle`` clocks; return the testbench."""
        await self.start()
        await self.until(lambda: self.host.credits.plain > 0 and self.host.credits.data > 0, 600)
        await self.clocks(settle)
        return self

    async def leave_unacknowledged(self, completions: int) -> None:
        """Mute the host and send completions, which then stay in the device's retry buffer."""
        self.muted = True
        await self.clocks(10)
        for _ in range(completions):
            self.answer(link_messages.random_ndr(self.rng))
            await self.clocks(2)
        await self.clocks(20)

    # ---- messages
    def send(self, *messages: M2SReq | M2SRwD) -> None:
        """Queue requests in the host, to be sent to the device."""
        for message in messages:
            if isinstance(message, M2SReq):
                self.sent.req.append(link_messages.req_word(message))
            else:
                self.sent.rwd.append(link_messages.rwd_word(message))
            self.host.send(message)

    def answer(self, *messages: S2MMessage) -> None:
        """Queue responses in the core, to be sent to the host."""
        for message in messages:
            if isinstance(message, S2MNDR):
                self.sent.ndr.append(message)
                self.out_ndr.append(message)
            else:
                assert isinstance(message, S2MDRS)
                self.sent.drs.append(message)
                self.out_drs.append(message)

    def answer_random(self, ndr: int = 0, drs: int = 0) -> None:
        """Queue ``ndr`` random completions and ``drs`` random read responses in the core."""
        self.answer(*(link_messages.random_ndr(self.rng) for _ in range(ndr)))
        self.answer(*(link_messages.random_drs(self.rng) for _ in range(drs)))

    def fill(self, count: int, tricky: float = 0.3) -> None:
        """Queue ``count`` random messages of each channel, in the host and in the core.

        ``tricky`` is the share of data that looks like a control flit.
        """
        rng = self.rng
        for _ in range(count):
            rwd, drs = link_messages.random_rwd(rng), link_messages.random_drs(rng)
            if rng.random() < tricky:
                rwd = M2SRwD(
                    RwdOp.MEM_WR, rwd.tag, rwd.addr, rwd.ldid, data=link_messages.tricky_data(rng)
                )
            if rng.random() < tricky:
                drs = S2MDRS(
                    0, drs.tag, drs.ldid, drs.devload, False, link_messages.tricky_data(rng)
                )
            both: list[M2SReq | M2SRwD] = [link_messages.random_req(rng), rwd]
            self.send(*rng.sample(both, 2))
            self.answer(link_messages.random_ndr(rng), drs)

    @property
    def complete(self) -> bool:
        """True if as many messages of each channel have arrived as were sent."""
        return all(got >= sent for got, sent in zip(self.got.counts(), self.sent.counts()))

    async def completed(self, limit: int) -> tuple[int, int]:
        """Wait until as many messages have arrived as were sent, for at most ``limit`` clocks.

        Returns:
            The number of flits that the device sent meanwhile, and of clocks.
        """
        first, sent = self.now, len(self.tx_log)
        await self.until(lambda: self.complete, limit)
        return len(self.tx_log) - sent, self.now - first

    async def delivered(self, limit: int, settle: int = 0) -> tuple[int, int]:
        """Wait as `completed`, then ``settle`` clocks, and `check`; return as `completed` does."""
        spent = await self.completed(limit)
        await self.clocks(settle)
        self.check()
        return spent

    def check(self) -> None:
        """Check that each message arrived once, in order and unchanged, without any error."""
        for channel, sent in vars(self.sent).items():
            assert vars(self.got)[channel] == sent, channel
        assert not self.host.issues, self.host.issues[:3]
        assert not self.events["protocol_error"], self.errors
        assert self.events["tx_flit"] == len(self.tx_log), "TX_FLIT is not what left"
        assert self.events["rx_flit"] == self.driven_flits, "RX_FLIT is not what came"
        if self.tracker:
            # The host's all-data flits may look like RETRY flits while the device discards them.
            errors = [e for e in self.tracker.errors if " M2S " not in e and "response:" not in e]
            assert not errors, (len(errors), errors[:3])

    # ---- one clock
    async def clock(self) -> None:
        dut, chance = self.dut, self.rng.random
        await RisingEdge(dut.clk)
        self.now += 1
        self._sample()
        if self.auto_phy:
            self._retrain()
        if self.raw:
            out: WireFlit | None = self.raw.popleft()
        elif self.muted or (self.rx_rate < 1.0 and chance() >= self.rx_rate):
            out = None
            self.host.stall()
        else:
            out = self.host.next_flit()
        if out is not None and self.to_device is not None:
            out = self.to_device(out)
        self.down.append(out)
        out = self.down.popleft()
        self.driven = out
        dut.rx_valid.value = out is not None
        if out is not None:
            dut.rx_protocol_id.value, dut.rx_flit.value = out
        self.ready = self.phy and chance() < self.ready_rate
        dut.tx_ready.value = self.ready
        self.req_ready, self.rwd_ready = chance() < self.core_rate, chance() < self.core_rate
        dut.req_ready.value = self.req_ready
        dut.rwd_ready.value = self.rwd_ready
        if self.ndr is None and self.out_ndr and chance() < self.core_rate:
            self.ndr = n = self.out_ndr.popleft()
            dut.ndr.value = n.tag << 6 | n.ldid << 2 | n.devload
        dut.ndr_valid.value = self.ndr is not None
        if self.drs is None and self.out_drs and chance() < self.core_rate:
            self.drs = d = self.out_drs.popleft()
            head = d.tag << 7 | d.ldid << 3 | d.devload << 1 | d.poison
            dut.drs.value = head << 512 | int.from_bytes(d.data, "little")
        dut.drs_valid.value = self.drs is not None

    def _retrain(self) -> None:
        if self._phy_back:
            self._phy_back -= 1
            if not self._phy_back:
                self.set_phy(True)
        elif self.phy and (self.host.retry.retrain_request or int(self.dut.retrain_request.value)):
            self.set_phy(False)
            self._phy_back = 5
            self.tracker = None  # does not know the physical layer

    async def clocks(self, count: int) -> None:
        for _ in range(count):
            await self.clock()

    async def until(self, reached: Callable[[], bool], limit: int) -> None:
        for _ in range(limit):
            if reached():
                return
            await self.clock()
        counts = self.got.counts()
        raise AssertionError(f"stuck: {counts}, LRSM {self.lrsm}, host {self.host.retry.lrsm}")

    def set_phy(self, up: bool) -> None:
        """Let the physical layer go down or up for both ends; lose the flits on the wires."""
        self.phy = up
        self.dut.phy_up.value = up
        self.host.set_phy(up)
        for line in (self.down, self.upward):
            for i in range(len(line)):
                line[i] = None
        self.arrived = len(self.tx_log)

    @property
    def write_pointer(self) -> int:
        """Index of the next flit in the retry buffer of the device."""
        return int(self.dut.u_retry_buffer.wr_q.value)

    @property
    def free(self) -> int:
        """NumFreeBuf: free entries of the device's retry buffer, read from the RTL's register."""
        return int(self.dut.u_retry_buffer.free_q.value)

    @property
    def lrsm(self) -> int:
        return self.status()["lrsm"]

    def status(self) -> dict[str, int]:
        """Return the members of the port `status` by name."""
        return unpack(STATUS, int(self.dut.status.value))

    # ---- sampling
    def _sample(self) -> None:
        """Sample all ports before the clock edge (events, flits, messages), check and cover."""
        dut = self.dut
        events, status = int(dut.events.value), self.status()
        count_events(self.events, events, status["error_kind"])
        if status["error_kind"]:
            self.errors.append(status["error_kind"])
        self.observer.clock(self.now, status, self.phy, self.driven)
        # The strobes of a flit come a clock later than the flit.
        self.driven_flits += self._arriving
        self._arriving = self.driven is not None and self.phy
        if self.tracker and self.driven is not None and self.phy:
            self.tracker.observe(flits.Direction.M2S, *self.driven, self.now)
        self.upward.append(self._sent())
        self._deliver(self.upward.popleft())
        if self.req_ready and int(dut.req_valid.value):
            self.got.req.append(sampled(dut.req))
        if self.rwd_ready and int(dut.rwd_valid.value):
            self.got.rwd.append(sampled(dut.rwd))
        if self.ndr is not None and int(dut.ndr_ready.value):
            self.ndr = None
        if self.drs is not None and int(dut.drs_ready.value):
            self.drs, self.drs_taken = None, self.drs_taken + 1

    def _sent(self) -> WireFlit | None:
        """Return the flit that the device transfers in this clock; None if it transfers none.

        Also check that flits stay unchanged under back-pressure.
        """
        if not int(self.dut.tx_valid.value):
            assert self.stalled is None, "tx_valid fell under back-pressure"
            return None
        flit = int(self.dut.tx_flit.value)
        assert self.stalled in (None, flit), "tx_flit moved under back-pressure"
        self.stalled = None if self.ready else flit
        if not self.ready:
            return None
        wire = int(self.dut.tx_protocol_id.value), flit
        self.tx_log.append((self.now, flit))
        self._answered(flit & PAYLOAD_MASK)
        self.observer.sent(self.now, wire)
        if self.tracker and self.phy:
            self.tracker.observe(flits.Direction.S2M, *wire, self.now)
        return wire

    def _answered(self, payload: int) -> None:
        """Check that RRSM showed an answer when the first RETRY.Frame of its sequence left.

        RETRY.Ack, the sixth flit of the sequence, was not yet sent then.
        """
        kind = control.decode_control(payload)[0] if flits.is_control(payload) else None
        self.last_sent.append((kind, self.status()["rrsm"]))
        before = [one for one, _ in self.last_sent][:-1]
        if isinstance(kind, control.RetryAck) and before == link_messages.FRAMES:
            assert self.last_sent[0][1], "RRSM is NORMAL while an answer is sent"

    def _deliver(self, head: WireFlit | None) -> None:
        """Pass the flit that arrives at the host to it, after damage, and store its messages."""
        if head is not None:
            if self.to_host is not None:
                head = self.to_host(head)
            self.arrived += 1
            for message in self.host.receive(*head):
                if isinstance(message, S2MNDR):
                    self.got.ndr.append(message)
                elif isinstance(message, S2MDRS):
                    self.got.drs.append(message)

    # ---- what the device sent
    def controls(self, since: int = 0) -> list[control.ControlFlit]:
        """Return the control flits among the device's flits from number ``since`` on.

        All-data flits may look like control flits, and are then returned as well.
        """
        return [
            control.decode_control(f & PAYLOAD_MASK)[0]
            for _, f in self.tx_log[since:]
            if flits.is_control(f & PAYLOAD_MASK)
        ]

    def requests(self, since: int = 0) -> list[control.RetryReq]:
        """Return every RETRY.Req among the device's flits from number ``since`` on."""
        return [one for one in self.controls(since) if isinstance(one, control.RetryReq)]

    def answers(self, since: int = 0) -> list[control.RetryAck]:
        """Return every RETRY.Ack among the device's flits from number ``since`` on."""
        return [one for one in self.controls(since) if isinstance(one, control.RetryAck)]

    def put(self, *kinds: control.ControlFlit) -> None:
        """Put control flits on the wire to the device in place of the host's next flits."""
        for kind in kinds:
            self.raw.append((link_messages.PID, seal(control.encode_control(kind))))


class LinkTestbench(RetryTestbench):
    """Testbench of exact flits and clocks: no delay on the wires, and an eager host.

    The host acknowledges flits and returns credits as soon as it can.

    Args:
        dut: Top ``nf_link``.
        grant: Credits of either kind that the host grants at the start; later ones only replace
            used credits.
        lenient: The host does not judge the device, as the test puts flits on the wire that the
            host does not know of.
        config: Fields of LinkConfig.
    """

    def __init__(self, dut: Any, grant: int = 64, lenient: bool = False, **config: Any) -> None:
        eager = {"ack_force_threshold": 2, "flush_retimer": 1, "retry_depth": 255}
        super().__init__(dut, cocotb.RANDOM_SEED, 0, tracked=False, grant=grant, **eager | config)
        self.lenient = lenient

    async def up(self, settle: int = 120) -> Self:
        """Initialise the link, wait for the full grant of credits both ways and ``settle`` clocks.

        Return the testbench.
        """
        await self.start()
        returns = self.host.returns
        await self.until(lambda: self.host.credits == ALL_CREDITS and not returns.initial, 400)
        assert int(self.dut.link_up.value)
        await self.clocks(settle)
        return self

    def drive(
        self,
        *flits_or_kinds: int | control.ControlFlit,
        plain: int = 0,
        data: int = 0,
        protocol_id: int = link_messages.PID,
    ) -> None:
        """Put sealed flits or control flits on the wire to the device before those of the host.

        The host keeps each retryable one in its retry buffer, as if it had sent it.

        Args:
            flits_or_kinds: The flits, as 528-bit values or control flits.
            plain: Request credits of the host that they cost.
            data: Write credits of the host that they cost.
            protocol_id: Protocol ID of the flits.
        """
        for one in flits_or_kinds:
            flit = one if isinstance(one, int) else seal(control.encode_control(one))
            self.raw.append((protocol_id, flit))
            if isinstance(one, int) or control.is_retryable(one):
                self.host.buffer.store(flit, False)
        self.host.credits.plain -= plain
        self.host.credits.data -= data

    def grant(self, plain: int = 0, data: int = 0) -> None:
        """Grant credits to the device by an LLCRD flit of the test."""
        self.host.returns.peer.plain += plain
        self.host.returns.peer.data += data
        self.drive(control.Llcrd(0, flits.encode_credit(plain), 0, flits.encode_credit(data)))

    def hold(self, held: bool = True) -> None:
        """Let the host send messages only, without acknowledgements and credits, or end this."""
        self.host.hold_acks(held)
        self.host.hold_credits(held)

    def _sample(self) -> None:
        dut, host = self.dut, self.host
        gone = self.drs_taken == len(self.got.drs) or not int(dut.drs_gone.value)
        assert gone, "drs_gone, though the data of a read has not left"
        owed, sent = host.unpacker.owed, len(self.tx_log)
        super()._sample()
        for _, flit in self.tx_log[sent:]:
            assert int(dut.tx_protocol_id.value) == link_messages.PID
            assert not host.counters["crc_error"], "CRC of a sent flit"
            if owed <= 3 and not flits.is_control(flit):
                assert flits.FlitHeader.decode(flit).rsp_crd == 0
        assert self.lenient or not host.issues, host.issues
        assert host.credits.plain <= REQ_CREDITS, "more requests granted than there are places"
        assert host.credits.data <= RWD_CREDITS, "more writes granted than there are places"

    async def broken(self, payload: int) -> None:
        """Drive a broken control flit; check that it gives one error and one retry."""
        errors, retries = self.events["protocol_error"], self.events["retry_local"]
        self.raw.append((link_messages.PID, seal(payload)))
        await self.clocks(4)
        await self.until(lambda: self.lrsm == NORMAL, 61)
        assert self.events["protocol_error"] == errors + 1, f"{payload:x}h is no error, or two"
        assert self.events["retry_local"] == retries + 1, f"{payload:x}h starts no retry"


def link_up_test(test: Callable[..., Coroutine[Any, Any, None]]) -> TestGenerator:
    """Register a test of `nf_link` with cocotb; it gets a LinkTestbench whose link is up."""

    @functools.wraps(test)
    async def run(dut: Any, **settings: Any) -> None:
        await test(await LinkTestbench(dut).up(), **settings)

    return link_test(run)
