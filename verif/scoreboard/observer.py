# SPDX-License-Identifier: Apache-2.0
"""Observer of a scoreboard: the interface through which functional coverage samples its results."""

from __future__ import annotations

from models.aggregated_line import AggregatedLine
from models.expected_response import ExpectedResponse
from models.regions import RegionConfig
from verif.scoreboard.operations import Op
from verif.scoreboard.pending import Commit


class Observer:
    """Listener whose methods do nothing; a subclass overrides those that it needs."""

    def answered(self, op: Op, config: RegionConfig | None) -> None:
        """Receive an answered operation; `config`: the region whose window holds its address."""

    def judged(
        self, op: Op, before: AggregatedLine, after: AggregatedLine, expected: ExpectedResponse
    ) -> None:
        """Receive an operation on a line, the line before and after it, and the expected answer.

        Racing operations come in one order that explains all answers.
        """

    def committed(
        self, region: int, config: RegionConfig, epoch: int, code: int, busy: bool
    ) -> None:
        """Receive a decided commit; `busy`: requests were in flight when it began."""

    def closed(self, region: int, busy: bool) -> None:
        """Receive a closed round; `busy`: requests were in flight when CLOSE was written."""

    def raced(self, first: Commit, last: Commit) -> None:
        """Receive two racing commits, once a read has shown their order."""

    def status_read(self, op: Op, words: list[int], exact: bool) -> None:
        """Receive a STATUS answer; `exact`: each word could have one value only."""
