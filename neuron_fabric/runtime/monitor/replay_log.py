# SPDX-License-Identifier: Apache-2.0
"""The state machine over a recorded run: the same decisions by the same thresholds, and what others
would have decided (law L11).

Under other thresholds the recorded signals are those of the recorded routes: once a decision
differs, what would have followed in the training is not known, and the replay says from where on.
"""

from __future__ import annotations

from dataclasses import dataclass

from neuron_fabric.errors import MonitorError
from neuron_fabric.runtime.monitor import states
from neuron_fabric.runtime.monitor.consensus import Codec
from neuron_fabric.runtime.monitor.job_plan import Plan
from neuron_fabric.runtime.monitor.log import Segment
from neuron_fabric.runtime.monitor.states import Decision, JobState


@dataclass(frozen=True)
class Replayed:
    """What the machine has decided over one segment. ``differs`` is the first step whose decisions
    are not the recorded ones."""

    state: JobState
    decisions: list[Decision]
    differs: int | None


def replay(segment: Segment, plan: Plan | None = None) -> Replayed:
    """Run the machine over the recorded numbers, by the recorded plan or another one for the same
    regions. MonitorError for other regions, or when a step is missing."""
    run = segment.run
    used = plan or run.plan
    names = [one.name for one in run.plan.regions]
    if [one.name for one in used.regions] != names:
        what = f"regions {', '.join(names[:6])} in the log"
        raise MonitorError("replay", f"{what}, others in the plan", "give a profile of that model")
    codec = Codec(used, run.world, 0)
    state = run.state or states.start(used)
    if len(state.regions) != len(names) or len(run.fields) not in codec.lengths:
        what = "the log's state or numbers are of other regions"
        raise MonitorError("replay", what, "the log is damaged, or of another version")
    decisions: list[Decision] = []
    for one in segment.steps:
        if one.step != state.step + 1:
            what = f"step {state.step + 1} is missing before step {one.step}"
            raise MonitorError("replay", what, "a log can be replayed up to there alone")
        state, decided = states.advance(used, state, codec.decode(one.step, one.vector))
        decisions += decided
    return Replayed(state, decisions, _first_difference(segment.decisions, decisions))


def _first_difference(recorded: list[Decision], found: list[Decision]) -> int | None:
    for a, b in zip(recorded, found, strict=False):
        if a != b:
            return min(a.step, b.step)
    if len(recorded) == len(found):
        return None
    return (recorded if len(recorded) > len(found) else found)[min(len(recorded), len(found))].step
