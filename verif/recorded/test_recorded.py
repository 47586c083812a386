# SPDX-License-Identifier: Apache-2.0
"""Check that all checkers derive from recorded runs what they derived when these were recorded.

See verif/recorded/README.md.
"""

import pytest

from verif.recorded import replay_bench as bench
from verif.recorded.drawn_bench import DRAWN, drawn
from verif.recorded.watch_bench import Summary

RECORDINGS = {one.name: one for one in bench.recordings()}
STORED = bench.stored()


def compare(kind: str, now: Summary) -> None:
    """Compare a summary with the stored one; a difference shows names and both values."""
    was = STORED.summaries[kind]
    changed = [one for one in sorted({*was, *now}) if was.get(one) != now.get(one)]
    lines = [f"{one}: {was.get(one)}, now {now.get(one)}" for one in changed[:20]]
    assert not changed, f"{kind}: {len(changed)} values differ:\n" + "\n".join(lines)


@pytest.mark.parametrize("seed", range(DRAWN))
def test_drawn_traffic(seed: int) -> None:
    compare(f"drawn {seed}", drawn(seed))


@pytest.mark.parametrize("name", RECORDINGS)
def test_recording(name: str) -> None:
    """Check a recording as it is, with many damages, and with one.

    As it is, there is no finding. Findings, bins, ranges and judgements are those that were stored,
    and damage of one event leads to the same first finding.
    """
    recording = RECORDINGS[name]
    for kind, now in bench.summaries(recording).items():
        compare(kind, now)
        assert kind != name or not [one for one in now if one.startswith("found/")]
    for run, damage, at, seed, *said in STORED.verdicts:
        if run == name:
            found = bench.verdict(recording, damage, at, seed)
            assert found == tuple(said), f"{damage} at event {at}, seed {seed}"


def test_each_damage_is_found_somewhere() -> None:
    """Check that each kind of damage has a finding, but for those that leave an event legal."""
    found = {name for _, name, _, _, said, _ in STORED.verdicts if said != "none"}
    assert {*bench.NAMES} - found <= {"beat: zeros", "request: enables"}
