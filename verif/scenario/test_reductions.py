# SPDX-License-Identifier: Apache-2.0
"""Tests of the reduction of a failing scenario, with a function in place of a simulator."""

from models.parameters import DeviceParams
from verif.scenario.delta_debugging import OutOfTime, reduce
from verif.scenario.generator import generate
from verif.scenario.scenario_data import Do, Operation, Scenario
from verif.scenario.weights import Weights


def drawn() -> Scenario:
    return generate(5, DeviceParams(), Weights(), 120)


def writes(scenario: Scenario) -> list[Operation]:
    return [one for one in scenario.operations if one.do is Do.WRITE]


def test_two_operations_are_found() -> None:
    """Check that a reduction leaves a commit and a poisoned write after it, if the fault needs
    both.
    """

    def fails(candidate: Scenario) -> bool:
        kinds = [
            "c" if one.do is Do.COMMIT else "p" if one.poison else "-"
            for one in candidate.operations
        ]
        return "p" in kinds and "c" in kinds[: kinds.index("p")]

    kept: list[Scenario] = []
    found = reduce(drawn(), fails, kept.append)
    assert [one.do for one in found.operations] == [Do.COMMIT, Do.WRITE]
    assert len(found.regions) <= 2
    assert kept[-1] == found
    assert all(fails(one) for one in kept)


def test_data_and_regions_become_simple() -> None:
    found = reduce(drawn(), lambda candidate: len(writes(candidate)) > 0, lambda _best: None)
    (write,) = found.operations
    assert set(write.data) == {"0"}
    assert write.limit == write.line == 0
    assert len(found.regions) <= 1


def test_what_was_found_in_time_is_kept() -> None:
    tries = 0

    def fails(candidate: Scenario) -> bool:
        nonlocal tries
        tries += 1
        if tries > 6:
            raise OutOfTime
        return len(candidate.operations) > 20

    start = drawn()
    found = reduce(start, fails, lambda _best: None)
    assert 20 < len(found.operations) < len(start.operations)


def test_a_failure_that_needs_all_of_it_stays() -> None:
    start = drawn()
    assert (
        reduce(start, lambda _candidate: False, lambda _best: None).operations == start.operations
    )
