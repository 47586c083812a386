# SPDX-License-Identifier: Apache-2.0
"""Tests of clears by software that race with events, and of the interrupt pin that follows from
both.
"""

from models.register_map import REG_MAP
from verif.scoreboard.ranges import SETTLE_CLOCKS, Cleared, Recent, Span, either, exactly
from verif.scoreboard.register_predictor import Interrupts

REGS = REG_MAP.expand()
STATUS, ENABLE = REGS["IRQ_STATUS"], REGS["IRQ_ENABLE"]


class Events:
    """Source for `Cleared` whose range of events the test sets."""

    def __init__(self) -> None:
        self.now = exactly(0)

    def span(self) -> Span:
        return self.now


def test_spans() -> None:
    assert 3 in Span(1, 3)
    assert 4 not in Span(1, 3)
    assert 9 in either(1, 9)
    assert 5 not in either(1, 9)
    assert str(either(1, 9)) == "1 or 9"
    assert str(Span(1, 3)) == "1..3"


def test_an_event_on_a_port_settles() -> None:
    now = 0
    recent = Recent(lambda: now)
    recent.add(2)
    assert recent.span() == Span(0, 2)
    now = SETTLE_CLOCKS
    assert recent.span() == Span(2, 2)
    for _ in range(100):
        now += 1
        recent.add()
    assert recent.span() == Span(102 - SETTLE_CLOCKS, 102)


def test_a_clear_with_nothing_in_flight_is_exact() -> None:
    events = Events()
    cleared = Cleared(events.span)
    events.now = exactly(3)
    before = cleared.begin()
    assert cleared.end(before) == Span(3, 3)
    cleared.clear_begin()
    cleared.clear_end()
    assert cleared.span() == Span(0, 0)
    events.now = exactly(4)
    assert cleared.span() == Span(1, 1)


def test_an_event_in_the_clock_of_a_clear_is_open() -> None:
    events = Events()
    cleared = Cleared(events.span)
    events.now = exactly(3)
    before = cleared.begin()
    cleared.clear_begin()
    events.now = Span(3, 4)
    assert cleared.span() == Span(0, 4), "the write may take effect now or later"
    cleared.clear_end()
    events.now = exactly(4)
    assert cleared.span() == Span(0, 1)
    assert cleared.end(before) == Span(0, 4), "a read around a clear may be before it"


def interrupts() -> tuple[Interrupts, dict[str, Events]]:
    sources = {field.name: Events() for field in STATUS.fields}
    model = Interrupts(STATUS, ENABLE, {name: one.span for name, one in sources.items()})
    return model, sources


def test_each_bit_is_sticky_masked_and_cleared() -> None:
    for field in STATUS.fields:
        model, sources = interrupts()
        assert model.check(0, model.begin()) is None
        assert f"{field.name} is 1" in str(model.check(field.mask, model.begin()))
        sources[field.name].now = exactly(2)
        assert model.check(field.mask, model.begin()) is None
        assert f"{field.name} is 0" in str(model.check(0, model.begin()))
        assert model.pin() == Span(0, 0)
        list(model.enable_bits(~field.mask & ENABLE.mask(), 0xFFFF_FFFF))
        assert model.pin() == Span(0, 0), "another bit is enabled"
        enabling = model.enable_bits(field.mask, 0xFFFF_FFFF)
        next(enabling)
        assert model.pin() == Span(0, 1)
        list(enabling)
        assert model.pin() == Span(1, 1)
        list(model.clear(STATUS.mask() & ~field.mask))
        assert model.pin() == Span(1, 1), "another bit was cleared"
        list(model.clear(field.mask))
        assert model.pin() == Span(0, 0)
        assert model.check(0, model.begin()) is None


def test_a_bit_that_is_not_certain_may_be_either() -> None:
    model, sources = interrupts()
    sources["DONE"].now = Span(0, 1)
    mask = STATUS.field("DONE").mask
    for value in (0, mask):
        assert model.check(value, model.begin()) is None
