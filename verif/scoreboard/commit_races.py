# SPDX-License-Identifier: Apache-2.0
"""Two writes that end a round of one region at once: by AXI4-Lite, and through the control window.

Both are commits, or one of them is a CLOSE. The register bus takes one access at a time, so
each of the two is wholly before or wholly after the other (spec: controller, second edition,
section 9). The pins do not show which comes first; a read after both does: EPOCH returns the
value of the later commit, and STATUS.CLOSED is 1 if the close was the later. Until then nothing
of the region is judged; from then on everything is, in that order alone.
"""

from __future__ import annotations

from collections.abc import Callable

from models.regions import RegionConfig
from verif.scoreboard.line_judge import LineJudge
from verif.scoreboard.pending import Commit


class CommitRaces:
    """Races between two writes that end a round of one region: two commits, or a commit and a
    close.

    One comes by AXI4-Lite, the other through the control window. Their order is unknown until a
    read of EPOCH or of STATUS.CLOSED shows it (spec: controller, second edition, section 9).
    """

    def __init__(self, judge: LineJudge, settled: Callable[[Commit, Commit], None]) -> None:
        """Start without races.

        Args:
            judge: Holder of the unsettled commits of each region.
            settled: Called with the first and the last of two racing commits once a read has shown
                their order.
        """
        self.judge = judge
        self.settled = settled

    def begun(
        self, region: int, commit: Commit, before: RegionConfig, after: RegionConfig
    ) -> str | None:
        """Record that a commit or a close of a region was accepted, and detect a race with another
        one.

        Args:
            region: Number of the region.
            commit: The commit, already among the pending ones of the region; its `before`, `after`
                and `rival` are set here.
            before: Descriptor in the shadow registers before the words of this write.
            after: Descriptor in the shadow registers after them.

        Returns:
            Text of a finding if no read could show the order of the commits, else None.
        """
        pending = self.judge.pending(region)
        rivals = [
            one
            for one in pending
            if one.end < 0
            and one.in_band != commit.in_band
            and not (one.closes and commit.closes)  # in either order they do the same
        ]
        commit.before, commit.after = before, after
        unsettled = any(one.rival is not None for one in pending)
        if not rivals and not unsettled:
            return None
        alike = bool(rivals) and not (commit.closes or rivals[0].closes)
        if unsettled or len(rivals) > 1 or (alike and rivals[0].epoch == commit.epoch):
            return f"bench: the order of the commits of region {region} cannot be observed"
        commit.rival, rivals[0].rival = rivals[0], commit
        return None

    def told_epoch(self, region: int, epoch: int, since: int) -> str | None:
        """Settle the race of two commits of a region by the value that a read of EPOCH returned.

        Args:
            region: Number of the region.
            epoch: Value read; the commit that wrote it was the last.
            since: Time at which the read began; both commits must have been answered by then.

        Returns:
            Text of a finding if neither commit wrote this value, else None (also without a race, or
            for a race with a close).
        """
        pair = self._decided(region, since)
        if len(pair) < 2 or any(one.closes for one in pair):
            return None
        pair.sort(key=lambda one: one.epoch == epoch)
        if pair[-1].epoch != epoch:
            return f"REGISTER EPOCH of region {region} reads {epoch:#x}, which neither commit wrote"
        self._settle(region, *pair)
        return None

    def told_closed(self, region: int, closed: bool, since: int) -> None:
        """Settle the race of a commit with a close by a read of STATUS.CLOSED that began at
        `since`.

        The close was the last one if the region is closed. After a refused commit the region is
        closed in either order. Nothing happens without such a race, or if one of the two was
        unanswered at `since`.
        """
        pair = self._decided(region, since)
        if any(one.closes for one in pair):
            self._settle(region, *sorted(pair, key=lambda one: one.closes == closed))

    def _decided(self, region: int, since: int) -> list[Commit]:
        """Return the two racing commits of a region if both were answered by `since`, else []."""
        pair = [one for one in self.judge.pending(region) if one.rival is not None]
        return [] if any(one.end < 0 or one.end > since for one in pair) else pair

    def _settle(self, region: int, first: Commit, last: Commit) -> None:
        """Put two racing commits into their order, report it to `settled`, and judge the region.

        A commit by AXI4-Lite gets the descriptor that the write through the window left for it.
        """
        pending = self.judge.pending(region)
        places = [at for at, one in enumerate(pending) if one in (first, last)]
        window, axil = (first, last) if first.in_band else (last, first)
        if not axil.closes:  # it writes EPOCH alone: the descriptor is what it finds
            config = window.after if axil is last else window.before
            assert config is not None
            axil.config = config
        for at, one in zip(places, (first, last), strict=True):
            pending[at], one.rival = one, None
        self.settled(first, last)
        self.judge.resolve(region)

    def unsettled(self) -> list[int]:
        """Return the numbers of the regions with two racing commits whose order no read has
        shown.
        """
        return [
            region
            for region in range(self.judge.model.params.regions)
            if any(one.rival is not None for one in self.judge.pending(region))
        ]
