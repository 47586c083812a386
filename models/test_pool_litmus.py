# SPDX-License-Identifier: Apache-2.0
"""Litmus tests of the ranks of a pool in every order, and each without the rule that it needs."""

import pytest

from models.pool import Rules
from models.pool_litmus import LITMUS, visit

LONG = pytest.mark.nightly("25 s: the most orders; the other twins are the quick part")
TWINS = [
    pytest.param(name, rule, marks=[LONG] * ((name, rule) == ("read after done", "done")))
    for name, test in LITMUS.items()
    for rule in test.twins
]


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("name", LITMUS)
def test_no_order_has_the_forbidden_outcome(name: str, devices: int) -> None:
    forbidden, ends, states = visit(name, devices)
    assert (forbidden, ends > 0, states > 30) == (0, True, True)


@pytest.mark.parametrize(("name", "rule"), TWINS)
def test_without_its_rule_the_forbidden_outcome_occurs(name: str, rule: str) -> None:
    assert visit(name, 1, Rules(**{rule: False}))[0] > 0


@pytest.mark.parametrize(("devices", "occurs"), [(1, False), (2, True)])
def test_ordered_links_replace_completions_on_one_device_only(devices: int, occurs: bool) -> None:
    """Check that a slower device for the data shows the outcome that one ordered link hides."""
    forbidden, _, _ = visit("message passing", devices, Rules(ordered=True, completion=False))
    assert (forbidden > 0) is occurs
