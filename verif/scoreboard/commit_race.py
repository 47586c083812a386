# SPDX-License-Identifier: Apache-2.0
"""Two writes that end a round of one region at once: by AXI4-Lite, and through the control window.

Both are commits, or one of them is a CLOSE. The register bus takes one access at a time, so each of
the two is wholly before or wholly after the other (spec: controller, second edition, section 9).
The pins do not show which comes first; a read behind both does: EPOCH returns the value of the
later commit, and STATUS.CLOSED is 1 if the close was the later. Until then nothing of the region is
judged; from then on everything is, in that order alone.
"""

from __future__ import annotations

from collections.abc import Callable

from models.regions import RegionConfig
from verif.scoreboard.pending import Commit
from verif.scoreboard.quiescence import Quiescence


class CommitRaces:
    """Feed it with each commit and close that begins, and with reads of EPOCH and of CLOSED; both
    say what is wrong."""

    def __init__(self, quiescence: Quiescence) -> None:
        self.quiescence = quiescence
        self.on_told: Callable[[Commit, Commit], None] = lambda _first, _last: None
        """Hears of each race, when the order is known."""

    def begun(
        self, region: int, commit: Commit, before: RegionConfig, after: RegionConfig
    ) -> str | None:
        """A commit or a close was accepted; `before`, `after`: the shadow descriptor in front of
        the words of its write, and behind them."""
        pending = self.quiescence.pending(region)
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
            return f"bench: nobody can tell in which order region {region} was committed"
        commit.rival, rivals[0].rival = rivals[0], commit
        return None

    def told_epoch(self, region: int, epoch: int, since: int) -> str | None:
        """A read of EPOCH that began at `since` has returned a value."""
        pair = self._decided(region, since)
        if len(pair) < 2 or any(one.closes for one in pair):
            return None
        pair.sort(key=lambda one: one.epoch == epoch)
        if pair[-1].epoch != epoch:
            return f"REGISTER EPOCH of region {region} reads {epoch:#x}, which neither commit wrote"
        self._settle(region, *pair)
        return None

    def told_closed(self, region: int, closed: bool, since: int) -> None:
        """A read of STATUS that began at `since` has returned CLOSED.

        (After a commit that is refused the region is closed in either order.)
        """
        pair = self._decided(region, since)
        if any(one.closes for one in pair):
            self._settle(region, *sorted(pair, key=lambda one: one.closes == closed))

    def _decided(self, region: int, since: int) -> list[Commit]:
        """The two of a race that were answered at `since`; else nothing."""
        pair = [one for one in self.quiescence.pending(region) if one.rival is not None]
        return [] if any(one.end < 0 or one.end > since for one in pair) else pair

    def _settle(self, region: int, first: Commit, last: Commit) -> None:
        """The order is known."""
        pending = self.quiescence.pending(region)
        places = [at for at, one in enumerate(pending) if one in (first, last)]
        window, axil = (first, last) if first.in_band else (last, first)
        if not axil.closes:  # it writes EPOCH alone: the descriptor is what it finds
            config = window.after if axil is last else window.before
            assert config is not None
            axil.config = config
        for at, one in zip(places, (first, last), strict=True):
            pending[at], one.rival = one, None
        self.on_told(first, last)
        self.quiescence.resolve(region)

    def unsettled(self) -> list[int]:
        """Return the regions with a race whose order no read has told."""
        return [
            region
            for region in range(self.quiescence.model.params.regions)
            if any(one.rival is not None for one in self.quiescence.pending(region))
        ]
