# SPDX-License-Identifier: Apache-2.0
"""Observer of a scoreboard: the interface through which functional coverage receives its
results.
"""

from collections.abc import Mapping

from models.aggregated_line import AggregatedLine
from models.expected_response import ExpectedResponse
from models.regions import RegionConfig
from verif.scoreboard.operations import Op
from verif.scoreboard.pending import Commit


class Observer:
    """Observer whose methods do nothing; a subclass overrides those that it needs."""

    def requested(self, op: Op) -> None:
        """Receive a request to which a response is due, when it arrives at the pins."""

    def begun(self, region: int, closes: bool) -> None:
        """Receive the start of a commit of a region, or of a close of its round."""

    def answered(self, op: Op, config: RegionConfig | None) -> None:
        """Receive a request with its response; it need not be judged yet.

        Args:
            op: Request with its response.
            config: Descriptor of the region whose window holds the address, or None.
        """

    def judged(
        self, op: Op, before: AggregatedLine, after: AggregatedLine, expected: ExpectedResponse
    ) -> None:
        """Receive an operation on a line of a region that the scoreboard found correct.

        Racing operations come in one order that explains all responses.

        Args:
            op: Request with its response.
            before: Line before the operation.
            after: Line after the operation.
            expected: Result that the model gave.
        """

    def committed(
        self, region: int, config: RegionConfig, epoch: int, code: int, busy: bool
    ) -> None:
        """Receive a settled commit of a region.

        Args:
            region: Number of the region.
            config: Descriptor that was committed, or refused.
            epoch: Value written to EPOCH.
            code: Result code; 0 if the commit was accepted.
            busy: Whether requests were in flight when it began.
        """

    def closed(self, region: int, busy: bool) -> None:
        """Receive a settled close of a region's round; `busy`: requests were in flight when it
        began.
        """

    def raced(self, first: Commit, last: Commit) -> None:
        """Receive two racing commits of a region, or a commit and a close, once a read has shown
        their order.
        """

    def status_read(self, op: Op, words: list[int], exact: bool) -> None:
        """Receive a response to a read of STATUS through a region's window.

        Args:
            op: Request with its response.
            words: The 16 words of the response.
            exact: Whether each word could have one value only.
        """

    def register_read(self, name: str, data: int, certain: Mapping[str, int]) -> None:
        """Receive a read of a register, by AXI4-Lite or through the control window, that was
        judged.

        A read within a commit comes again when the commit has shown that COMMIT_BUSY was right.

        Args:
            name: Name of the register, with its region: REGION[2].STATUS.
            data: Value read.
            certain: Bits of each field that could have one value only; fields without are left out.
        """
