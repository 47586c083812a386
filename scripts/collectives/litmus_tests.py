# SPDX-License-Identifier: Apache-2.0
"""`nf collectives litmus`: visits every order of small programs and counts forbidden outcomes.

Each program runs on one and on two devices. Then each rule that it needs is turned off (flush,
completion, acquire and so on), and the forbidden outcome must occur. The command fails if one
occurs with all rules, or does not occur without a rule.

examples:
  nf collectives litmus                      print forbidden outcomes, final states and states
"""

from __future__ import annotations

import argparse

from models.pool import Rules
from models.pool_litmus import LITMUS, visit
from neuron_fabric.errors import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no options: `nf collectives litmus` has none."""


def run(args: argparse.Namespace) -> int:
    """Run all litmus tests and their twins; return 1 if one has an unexpected outcome."""
    say(f"  {'program':26} devices  {'without':12} forbidden   ends  states")
    wrong = 0
    for name, test in LITMUS.items():
        for devices in (1, 2):
            wrong += _row(name, devices, "", Rules(), occurs=False)
        for rule in test.twins:
            wrong += _row(name, 1, rule, Rules(**{rule: False}), occurs=True)
    links = Rules(completion=False, ordered=True)
    for devices in (1, 2):  # in order to one device, but the data may be on the slower one
        wrong += _row("message passing, in order", devices, "completion", links, devices == 2)
    say(f"{wrong} unexpected outcomes")
    return int(wrong > 0)


def _row(name: str, devices: int, rule: str, rules: Rules, occurs: bool) -> bool:
    """Print a row; return whether the forbidden outcome is missing or occurs unexpectedly."""
    forbidden, ends, states = visit(name.removesuffix(", in order"), devices, rules)
    say(f"  {name:26} {devices:7}  {rule or '-':12} {forbidden:9} {ends:6} {states:7}")
    return (forbidden > 0) is not occurs
