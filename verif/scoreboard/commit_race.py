# SPDX-License-Identifier: Apache-2.0
"""Two commits of one region at once: one by AXI4-Lite, one through the control window.

The register bus takes one access at a time, so each of the two is wholly before or wholly after the
other (spec: controller, second edition, section 9). The pins do not show which comes first; a read
of EPOCH behind both does, since it returns the value of the later one. Until then nothing of the
region is judged; from then on everything is, in that order alone.
"""

from __future__ import annotations

from collections.abc import Callable

from models.regions import RegionConfig
from verif.scoreboard.pending import Commit
from verif.scoreboard.quiescence import Quiescence


class CommitRaces:
    """Feed it with each commit that begins, and with reads of EPOCH; both say what is wrong."""

    def __init__(self, quiescence: Quiescence) -> None:
        self.quiescence = quiescence
        self.on_told: Callable[[bool, bool], None] = lambda _in_band, _changes: None
        """Hears of each race: was the window last, and did it bring another descriptor."""

    def begun(self, region: int, commit: Commit, before: RegionConfig) -> str | None:
        """A commit was accepted; `before`: the descriptor in front of the words of its write."""
        pending = self.quiescence.pending(region)
        rivals = [
            one
            for one in pending
            if one.end < 0 and one.in_band != commit.in_band and not one.closes
        ]
        commit.before = before
        unsettled = any(one.rival is not None for one in pending)
        if not rivals and not unsettled:
            return None
        if unsettled or len(rivals) > 1 or rivals[0].epoch == commit.epoch:
            return f"bench: nobody can tell in which order region {region} was committed"
        commit.rival, rivals[0].rival = rivals[0], commit
        return None

    def told(self, region: int, epoch: int, since: int) -> str | None:
        """A read of EPOCH that began at `since` has returned a value."""
        pending = self.quiescence.pending(region)
        places = [at for at, one in enumerate(pending) if one.rival is not None]
        pair = [pending[at] for at in places]
        if not pair or any(one.end < 0 or one.end > since for one in pair):
            return None
        pair.sort(key=lambda one: one.epoch == epoch)
        last = pair[-1]
        if last.epoch != epoch:
            return f"REGISTER EPOCH of region {region} reads {epoch:#x}, which neither commit wrote"
        window = next(one for one in pair if one.in_band)
        for at, one in zip(places, pair, strict=True):
            pending[at], one.rival = one, None
            if one is not window:  # it writes EPOCH alone: the descriptor is what it finds
                assert window.before is not None
                one.config = window.config if one is last else window.before
        self.on_told(last is window, window.config != window.before)
        self.quiescence.resolve(region)
        return None

    def unsettled(self) -> bool:
        """There is a race whose order no read of EPOCH has told."""
        return any(
            one.rival is not None
            for region in range(self.quiescence.model.params.regions)
            for one in self.quiescence.pending(region)
        )
