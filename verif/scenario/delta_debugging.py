# SPDX-License-Identifier: Apache-2.0
"""Reduction of a failing scenario by delta debugging (Zeller and Hildebrandt: docs/references.md).

Cuts that remove most at once come first: operations after the failure, whole regions.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from models.line_packing import LINE_BYTES
from verif.scenario.scenario_data import Do, Link, Memory, Operation, Region, Scenario

Fails = Callable[[Scenario], bool]
"""True if the scenario fails for the same cause; raises `OutOfTime` when no more may be tried."""
_ZEROS = "00" * LINE_BYTES


class OutOfTime(Exception):
    """Signal of `fails` that the time limit of a reduction is reached."""


def reduce(scenario: Scenario, fails: Fails, keep: Callable[[Scenario], None]) -> Scenario:
    """Return the smallest scenario found that still fails.

    Args:
        scenario: Scenario that fails.
        fails: Returns whether a scenario fails for the same cause; raises OutOfTime to end the
            search.
        keep: Called with each smaller scenario that fails, and at the end with the result.
    """
    best = scenario

    def smaller(candidate: Scenario) -> bool:
        nonlocal best
        if candidate == best or not fails(candidate):
            return False
        best = candidate
        keep(best)
        return True

    try:
        _prefix(best, smaller)
        while True:
            before = best
            for candidates in (_without_regions, _simpler_surroundings):
                for change in candidates(best):
                    smaller(change(best))
            _delta_debug(lambda: best, smaller)
            for change in _simpler(best):
                smaller(change(best))
            if best == before:
                break
    except OutOfTime:
        pass
    used = _only_used_regions(best)
    keep(used)
    return used


Change = Callable[[Scenario], Scenario]
Smaller = Callable[[Scenario], bool]


def _prefix(scenario: Scenario, smaller: Smaller) -> None:
    """Remove the operations after the failure, by bisection.

    Args:
        scenario: Scenario that fails.
        smaller: Tries a scenario, makes it the best one if it fails, and returns whether it did.
    """
    low, high = 0, len(scenario.operations)
    while high - low > 1:
        middle = (low + high) // 2
        if smaller(replace(scenario, operations=scenario.operations[:middle])):
            high = middle
        else:
            low = middle


def _kept(keep: Callable[[Scenario, Operation], bool]) -> Change:
    """Return a change that removes every operation that `keep` does not accept."""
    return lambda old: replace(
        old, operations=tuple(one for one in old.operations if keep(old, one))
    )


def _replaced(name: str, index: int, value: Region | Operation) -> Change:
    """Return a change that replaces item `index` of the scenario's field `name`."""

    def change(old: Scenario) -> Scenario:
        items = getattr(old, name)
        fields: dict[str, Any] = {name: (*items[:index], value, *items[index + 1 :])}
        return replace(old, **fields)

    return change


def _without_regions(scenario: Scenario) -> Iterator[Change]:
    """Yield, for each region of the device, a change that removes all operations on it."""

    def other(number: int, old: Scenario, one: Operation) -> bool:
        return one.region < 0 or old.regions[one.region].number != number

    for number in sorted({region.number for region in scenario.regions}):
        yield _kept(partial(other, number))


def _simpler_surroundings(_scenario: Scenario) -> Iterator[Change]:
    yield lambda old: replace(old, link=Link(), memory=Memory())
    yield lambda old: replace(old, link=Link())
    yield lambda old: replace(old, memory=Memory())
    yield _kept(lambda _old, one: one.do not in (Do.WAIT, Do.GET, Do.MEMORY))


def _delta_debug(current: Callable[[], Scenario], smaller: Smaller) -> None:
    """Remove blocks of operations as long as the scenario fails: halves first, single ones last.

    Args:
        current: Returns the best scenario so far.
        smaller: See `_prefix`.
    """
    size = max(1, len(current().operations) // 2)
    while True:
        start = 0
        while start < len(current().operations):
            steps = current().operations
            left = steps[:start] + steps[start + size :]
            if not smaller(replace(current(), operations=left)):
                start += size
        if size == 1:
            return
        size //= 2


def _simpler(scenario: Scenario) -> Iterator[Change]:
    """Yield changes to a smaller region or a simpler operation, one at a time."""
    used = {one.region for one in scenario.operations}
    for index, region in enumerate(scenario.regions):
        if index in used:
            for simple in _smaller_regions(region, scenario, index):
                yield _replaced("regions", index, simple)
    for index, operation in enumerate(scenario.operations):
        for changed in _simpler_operation(operation):
            yield _replaced("operations", index, changed)


def _smaller_regions(region: Region, scenario: Scenario, index: int) -> Iterator[Region]:
    config = region.config
    steps = [one for one in scenario.operations if one.region == index]
    workers = 1 + max((one.selector for one in steps if one.do is Do.WRITE), default=0)
    lines = max((one.line for one in steps), default=0).bit_length()
    if workers < config.workers:
        yield replace(region, config=replace(config, workers=workers))
    if lines < config.lines_log2:
        yield replace(region, config=replace(config, lines_log2=lines))
    plain = replace(config, tie_minus=False, strict=False, bind=False, bind_shift=0, ld_mask=0xFFFF)
    plain = replace(plain, keep_sum=False)
    yield replace(region, config=plain)


def _simpler_operation(operation: Operation) -> Iterator[Operation]:
    if operation.do is Do.WRITE and operation.data != _ZEROS:
        yield replace(operation, data=_ZEROS)
    if operation.background or operation.limit:
        yield replace(operation, background=False, limit=0)
    if operation.line:
        yield replace(operation, line=0)
    for name in ("read_errors", "write_errors", "poisoned", "spoilt"):
        lines = getattr(operation, name)
        if len(lines) > 1:
            yield replace(operation, **{name: lines[: len(lines) // 2]})
            yield replace(operation, **{name: lines[len(lines) // 2 :]})


def _only_used_regions(scenario: Scenario) -> Scenario:
    """Return the scenario without descriptors that no operation names, with the others
    renumbered.
    """
    used = sorted({one.region for one in scenario.operations if one.region >= 0})
    place = {old: new for new, old in enumerate(used)} | {-1: -1}
    return replace(
        scenario,
        regions=tuple(scenario.regions[index] for index in used),
        operations=tuple(replace(one, region=place[one.region]) for one in scenario.operations),
    )
