# SPDX-License-Identifier: Apache-2.0
"""Scenarios of retry, credits, time-outs and error logs, without a link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.errors import CxlError, CxlTimeout, ErrorLog
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import CreditReturn, HostLink
from cocotbext.cxl.link.retry import Lrsm, RetryBuffer, RetryMachine
from cocotbext.cxl.tests.recorded.draws import any_control, any_message
from cocotbext.cxl.tests.recorded.texts import Lines, attributes, refusal, show
from cocotbext.cxl.transactions import Outstanding, Transaction, Watchdog
from cocotbext.cxl.wire.control import (
    ControlFlit,
    RetryAck,
    RetryFrame,
    RetryReq,
)
from cocotbext.cxl.wire.messages import (
    S2MDRS,
    S2MNDR,
)
from cocotbext.cxl.wire.packer import Credits


def sequence(rng: Random, machine: RetryMachine, buffer: RetryBuffer) -> ControlFlit:
    """Pass RETRY.Frame flits and a drawn control flit to a machine; return the latter."""
    control = any_control(rng, buffer.wr_ptr)
    if isinstance(control, RetryAck):
        control = replace(control, num_retry=machine.num_retry)
    for _ in range(rng.choice((0, 4, 5, 5, 6))):
        machine.control(RetryFrame())
    machine.control(control)
    return control


def used(rng: Random, _machine: RetryMachine, buffer: RetryBuffer) -> object:
    """Store or replay a flit in a buffer, and acknowledge some."""
    said = None
    if buffer.replaying:
        said = buffer.replay()
    elif buffer.free > 1:
        buffer.store(rng.randrange(999), rng.random() < 0.3)
    return said, buffer.acknowledge(rng.choice((0, 1, 1, 2)))


RETRY_EVENTS: tuple[tuple[int, Callable[[Random, RetryMachine, RetryBuffer], object]], ...] = (
    (8, sequence),
    (3, lambda _rng, machine, _buffer: machine.good_retryable()),
    (4, lambda _rng, machine, _buffer: machine.error()),
    (3, lambda _rng, machine, _buffer: machine.other()),
    (8, lambda rng, machine, _buffer: [machine.next() for _ in range(rng.choice((1, 6, 7)))]),
    (1, lambda _rng, machine, _buffer: machine.phy_down()),
    (2, lambda _rng, machine, _buffer: machine.phy_up()),
    (8, lambda _rng, machine, _buffer: machine.transmitted()),
    (4, used),
)
"""Weight and function of each event."""


def retry_machines() -> Lines:
    """Show both state machines of retry under drawn events in any order."""
    states = "lrsm rrsm eseq wrap num_retry num_phy_reinit timeout busy retrain_request"
    for seed in range(5):
        rng = Random(f"retry {seed}")
        config = LinkConfig(
            retry=True,
            retry_timeout=rng.choice((3, 7)),
            max_retry=rng.choice((1, 2, 4)),
            max_phy_reinit=rng.choice((0, 1, 2)),
        )
        counters: Counter[str] = Counter()
        buffer = RetryBuffer(rng.choice((22, 30)))
        machine = RetryMachine(buffer, counters, config)
        yield f"-- {seed}"
        for _ in range(250):
            weights, events = zip(*RETRY_EVENTS, strict=True)
            said = show(rng.choices(events, weights)[0](rng, machine, buffer))
            pointers = attributes(buffer, "wr_ptr rd_ptr free replaying next_is_adf")
            held = show([buffer.holds(n) for n in range(0, 33, 4)])
            yield f"{said} {show(counters)} {attributes(machine, states)} {pointers} {held}"
            if machine.lrsm is Lrsm.ABORT and rng.random() < 0.3:
                machine = RetryMachine(buffer, counters, config)


def frames_before_a_request() -> Lines:
    """Show whether RETRY.Frame flits count that precede each kind of event."""
    for number in range(4, 7):
        for before in ("good_retryable", "error", "other", "phy_down", "phy_up", "next", "busy"):
            for first in (0, 1, number):
                buffer, counters = RetryBuffer(22), Counter[str]()
                machine = RetryMachine(buffer, counters, LinkConfig(retry=True))
                for _ in range(first):
                    machine.control(RetryFrame())
                event = getattr(machine, before)
                if callable(event):
                    event()
                for _ in range(number - first):
                    machine.control(RetryFrame())
                machine.control(RetryReq(0, 1))
                yield f"{number} {before} {first} {machine.rrsm.value} {machine.busy}"


def credit_returns() -> Lines:
    """Show the credits that a partner returns and those that its peer may spend."""
    for seed in range(6):
        rng = Random(f"credits {seed}")
        low = rng.randrange(3)
        config = LinkConfig(
            rng=Random(seed),
            grant_plain=rng.choice((0, 2, 70)),
            grant_data=rng.choice((1, 5)),
            return_delay=(low, low + rng.choice((0, 9))) if seed % 2 else (0, 0),
            return_batch=rng.choice((1, 4)),
        )
        one = CreditReturn(config)
        for now in range(80):
            if now == 5:
                one.grant_initial()
            one.held = rng.random() < 0.2
            one.tick(now)
            said: list[object] = [one.initial, one.ready, one.take() if rng.random() < 0.5 else ""]
            if rng.random() < 0.4:
                said.append(one.spent(rng.randrange(3), rng.randrange(3)))
                one.release(now, rng.randrange(3), rng.randrange(3))
            yield f"{show(said)} {show(one.peer)}"


def upset(rng: Random, link: HostLink) -> None:
    """Change the state of a link, as a drawn event would."""
    match rng.randrange(6):
        case 0:
            link.counters[rng.choice(("retry_local", "phy_reinit", "crc_error"))] += 1
        case 1:
            link.credits = Credits(rng.randrange(-1, 3), rng.randrange(2))
            link.returns.peer = Credits(rng.randrange(2), rng.randrange(2))
        case 2 | 3:
            link.counters["rx_flit"] = rng.randrange(2)
            link._param_received = rng.random() < 0.5
            link._param_sent = rng.random() < 0.8
            link.phy = rng.random() < 0.8
        case 4:
            link.packer.reset()
            link.buffer.free = rng.choice((2, 3, 64))
        case 5 if rng.random() < 0.5:
            link.retry.error()


def time_outs() -> Lines:
    """Show the pairing of drawn requests with responses, and the time-outs of a host."""
    for seed in range(8):
        rng, log, up = Random(f"time-outs {seed}"), list[str](), False
        errors = ErrorLog(log.append)
        cfg = CxlConfig(
            LinkConfig(retry=seed % 2 == 0, max_retry=1, max_phy_reinit=0),
            response_timeout=rng.choice((0, 40, 50)),
            link_up_timeout=rng.choice((0, 30, 500)),
        )
        link = HostLink(cfg.link)
        requests = Outstanding(errors, rng, seed % 3 == 0)
        watchdog = Watchdog(cfg, link, requests)
        errors.owed = partial(requests.owed, 7)
        errors.wake.append(requests.wake)
        yield f"-- {seed} {watchdog.interval}"
        flying: list[Transaction] = []
        for clock in range(0, 340, 5):
            event = rng.randrange(12)
            if event < 3:
                message = any_message(rng).with_tag(rng.choice((requests.new_tag(), 3)))
                flying.append(requests.expect(message, clock))
                link.send(message)
            elif event < 5 and flying:
                one = rng.choice(flying).message
                kind = S2MDRS if rng.random() < 0.6 else S2MNDR
                answer = kind(0, one.tag ^ (rng.random() < 0.2), one.ldid)
                yield f"{clock} {requests.respond(answer, clock)}"
            elif event == 5:
                up = rng.random() < 0.8
            elif event == 6 and rng.random() < 0.3:
                requests.abort()
            elif event == 7:
                data = rng.choice(("", "00ff"))
                errors.report(clock, f"text {clock}", data, quiet=clock % 2 == 0)
            else:
                upset(rng, link)
            said = watchdog.check(clock, up, rng.random() < 0.1, rng.random() < 0.7)
            texts = [said, requests.owed(clock), attributes(requests, "count completed _tags")]
            oldest = requests.oldest
            texts += [str(len(requests.open())), show(oldest and oldest.start)]
            texts += [attributes(one, "done end aborted response") for one in flying[-3:]]
            yield f"{clock} {' | '.join(texts)}"
            if errors._first is not None:
                yield refusal(errors.check)
            if rng.random() < 0.2:
                errors.clear()
        yield from log


def error_logs() -> Lines:
    """Show the errors that a log writes, keeps and raises."""
    rng, log = Random("errors"), list[str]()
    errors = ErrorLog(log.append)
    errors.owed = lambda: "owed" * rng.randrange(2)
    errors.wake.append(lambda: log.append("woken"))
    for clock in range(60):
        kind = rng.choice((CxlError, CxlTimeout))
        errors.report(clock, "text", "ff" * rng.randrange(2), kind, rng.random() < 0.3)
        yield from log
        log.clear()
        if rng.random() < 0.1:
            yield refusal(errors.check)
            errors.clear()
            errors.check()


SCENARIOS: dict[str, Callable[[], Lines]] = {
    one.__name__: one
    for one in (
        retry_machines,
        frames_before_a_request,
        credit_returns,
        time_outs,
        error_logs,
    )
}
