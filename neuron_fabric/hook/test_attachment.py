# SPDX-License-Identifier: Apache-2.0
"""Tests of measured network times, of the capacity check of a profile, of observed conditions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")

from torch import nn

from neuron_fabric.capacity.cost_model import Device, low_seconds
from neuron_fabric.capacity.network_times import FRESH, KEPT, NetworkTimes
from neuron_fabric.capacity.profile_costs import NO_SUBSTRATE, Cost, costs_of, vet
from neuron_fabric.capacity.substrate import shipped
from neuron_fabric.codec import LINE, Route, lines_of
from neuron_fabric.hook.training_conditions import ConditionProbe, optimizer_name, valid_for
from neuron_fabric.monitor.bench import PHASES, small_profile, small_region
from neuron_fabric.monitor.job_plan import plan_of
from neuron_fabric.profile import PhaseRoute, Profile
from neuron_fabric.profile.portability import Conditions
from neuron_fabric.profile.profile_types import Phase, ValidFor

MIB = 1 << 20
ELEMENTS = 25 * MIB // 4
OF_VOTES = Device(routes=(Route.FP32, Route.G_BINARY, Route.G_TERNARY))


@dataclass
class Network:
    """Stand-in for futures and a clock: the test advances the clock and completes the futures."""

    now: float = 0.0
    ends: list[Callable[[Any], None]] = field(default_factory=list)

    def add_done_callback(self, end: Callable[[Any], None]) -> None:
        self.ends.append(end)

    def end(self, now: float) -> None:
        self.now = now
        self.ends.pop(0)(self)


def test_buckets_under_way_together_share_the_network() -> None:
    """Check the times of all-reduces that overlap: each counts from the end of the one before.

    Two of 1 and 2 MiB start at once and end after 1 and 3 s: they took 1 and 2 s.
    """
    net = Network()
    link = NetworkTimes(lambda: net.now)
    assert link.seconds() == {}
    link.watch(0, MIB, net)
    link.watch(0, 2 * MIB, net)
    net.end(1.0)
    net.end(3.0)
    assert link.seconds()["link_mib"] == pytest.approx(1.0)
    net.now = 5.0  # a pause is nobody's time
    link.watch(1, 4 * MIB, net)
    net.end(9.0)
    assert link.seconds()["link_mib"] == pytest.approx(1.0)
    assert link.seconds()["link_latency"] == pytest.approx(0.0, abs=1e-9)


def timed(link: NetworkTimes, net: Network, step: int, size: int, seconds: float) -> None:
    link.watch(step, size, net)
    net.end(net.now + seconds)


def test_a_late_rank_is_not_the_network() -> None:
    net = Network()
    link = NetworkTimes(lambda: net.now)
    for seconds in (9.0, 0.4, 7.0, 8.0, 0.5):
        timed(link, net, 0, MIB, seconds)
    assert link.seconds()["link_mib"] == pytest.approx(0.5)  # nor is one that was quick by luck
    for _ in range(KEPT):  # it has become slower
        timed(link, net, 1, MIB, 3.0)
    assert link.seconds()["link_mib"] == pytest.approx(3.0)


def test_all_reduces_that_end_at_one_time_take_no_less_than_none() -> None:
    """Check that no time is negative if two threads record the end of an all-reduce at once.

    A thread that had read its clock was overtaken by a later one.
    """
    late: list[threading.Thread] = []
    times = iter((2.0, 3.0))

    def clock() -> float:
        now = next(times)
        if not late:  # the other one ends while this one has its time and no more
            late.append(threading.Thread(target=link.ended, args=(0, MIB, 1.0)))
            late[0].start()
            late[0].join(0.2)
        return now

    link = NetworkTimes(clock)
    link.ended(0, 2 * MIB, 1.0)
    late[0].join()
    assert link.seconds() == {"link_latency": pytest.approx(1.0), "link_mib": 0.0}  # 1 s each


def test_sizes_that_are_not_seen_any_more_do_not_count() -> None:
    net = Network()
    link = NetworkTimes(lambda: net.now)
    timed(link, net, 0, 4 * MIB, 0.04)
    timed(link, net, FRESH, MIB, 1.0)
    assert link.seconds()["link_mib"] == 0.0  # 1 s for less, 0.04 s for more: all is latency
    timed(link, net, FRESH + 1, MIB, 1.0)
    assert link.seconds() == {"link_latency": 0.0, "link_mib": pytest.approx(1.0)}


def profile(*routes: str) -> Profile:
    """Return a profile with a region of 25 MiB for each route, for steady and recovery phase."""
    return small_profile(
        tuple(
            small_region(
                f"r{n}",
                ELEMENTS,
                {**PHASES, "steady": PhaseRoute(Route(one)), "recovery": PhaseRoute(Route(one))},
            )
            for n, one in enumerate(routes)
        )
    )


def test_without_a_substrate_nothing_is_vetoed() -> None:
    found = vet(profile("G_BINARY"), None, 8, device=True)
    assert (found.costs, found.refused, found.notes) == ({}, {}, (NO_SUBSTRATE,))


@pytest.mark.parametrize(
    ("device", "workers", "routes", "words"),
    [
        (Device(), 65, ("G_BINARY",), "r0' goes in FP32: 65 workers: a region has 64"),
        (Device(cnt_w=3), 8, ("G_BINARY",), "counters of 3 bits end at 7"),
        (OF_VOTES, 8, ("G_BINARY", "G_INT4"), "r1' goes in FP32: G_INT4: the device has FP32"),
        (Device(mem_lines_log2=2), 8, ("G_BINARY",), "not one line fits"),
        (
            Device(),
            8,
            ("G_BINARY", "G_INT4", "G_INT8"),
            "r2' goes in FP32: 4 routes: a job has 3 at a time on one device",
        ),
    ],
)
def test_a_hard_limit_is_a_line_and_fp32(
    device: Device, workers: int, routes: tuple[str, ...], words: str
) -> None:
    asked, substrate = profile(*routes), replace(shipped(), device=device)
    found = vet(asked, substrate, workers, device=True)
    [line] = [note for note in found.notes if "goes in FP32" in note]
    assert words in line
    [name] = found.refused
    assert name not in found.costs
    plan = plan_of(asked, costs=found.costs, refused=found.refused)
    assert [one.eligible for one in plan.regions] == [one != name for one in _names(asked)]
    assert not vet(asked, substrate, workers, device=False).refused  # they are the device's limits


def _names(asked: Profile) -> list[str]:
    return [one.name for one in asked.regions]


def test_codes_have_no_modelled_time_and_a_line_says_so() -> None:
    for device in (True, False):
        found = vet(profile("G_INT4", "G_BINARY"), shipped(), 8, device=device)
        assert set(found.costs) == {"r1"}
        assert not found.refused
        [note] = [one for one in found.notes if "whether or not" in one]
        assert "region 'r0': no time is modelled for packing G_INT4" in note


def test_rounds_are_told() -> None:
    [note] = vet(
        profile("G_BINARY"), replace(shipped(), device=Device(mem_lines_log2=14)), 8, device=True
    ).notes
    assert "6,553,600 elements by G_BINARY go in 13 rounds" in note


def test_costs_of_a_device_count_its_commits() -> None:
    known = replace(shipped().coefficients, pack_rate=1e9, unpack_rate=2e9)
    low = low_seconds(known, Route.G_BINARY, ELEMENTS, 8)
    cost = costs_of(profile("G_BINARY"), known, 8, buckets={"r0": 3})["r0"]
    assert cost == Cost(low.total + 2 * known.commit * known.flit_s, 25 * MIB, 0, 3)
    assert cost.low(9.0, 9.0) == cost.seconds  # a separate link
    assert cost.network(0.5, 0.1) == pytest.approx(3 * 0.5 + 2.5)


@pytest.mark.parametrize(("decode", "layers"), [("vote", 2), ("net", 5)])
def test_costs_by_the_same_network(decode: Literal["vote", "net"], layers: int) -> None:
    """Check the modelled cost without a device: host time, and packed bytes on the FP32 network."""
    known = replace(shipped().coefficients, pack_rate=1e9, unpack_rate=2e9)
    phases = {**PHASES, "steady": PhaseRoute(Route.G_BINARY, decode)}
    asked = small_profile([small_region("r", ELEMENTS, phases)])
    assert Phase.STEADY in phases
    cost = costs_of(asked, known, 8, device=False)["r"]
    lines = LINE * lines_of(ELEMENTS, Route.G_BINARY)
    assert cost.low_bytes == lines * layers // 2
    assert cost.seconds == pytest.approx(1.5 * 25 * MIB / 1e9)
    latency, mib = 1e-3, 0.1
    assert cost.low(latency, mib) == pytest.approx(cost.seconds + 2e-3 + mib * cost.low_bytes / MIB)
    quick = costs_of(asked, known, 8, device=False, waits=(0.5, 1e-4))["r"]
    assert quick.low(latency, mib) == pytest.approx(cost.low(latency, mib) - 1.5 * latency)
    assert quick.low(0.0, 0.0) == pytest.approx(cost.seconds + 1e-4)  # they take that at the least
    assert cost.ratio(latency, mib) < 0.2
    assert cost.ratio(latency, 1e-4) > 0.95  # a network that is faster than the packer


# -- batch, accumulation and autocast, as the forward passes of a training show them --------------


class Model(nn.Module):
    """Stand-in for DistributedDataParallel, with its flag whether a backward reduces."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.require_backward_grad_sync = nn.Linear(3, 3), True

    def forward(self, inputs: Any, more: Any = None) -> Any:
        return self.layer(inputs["x"] if isinstance(inputs, dict) else inputs)


def seen(*passes: tuple[Any, bool], amp: Any = None) -> Conditions:
    """Run forward passes, (inputs, whether it is reduced) each; return the observed conditions."""
    model = Model()
    watch = ConditionProbe(model)
    for inputs, sync in passes:
        model.require_backward_grad_sync = sync
        with torch.autocast("cpu", amp or torch.bfloat16, enabled=amp is not None):
            model(inputs)
    return watch.found


def test_what_is_seen() -> None:
    x = torch.zeros(5, 3)
    assert seen((x, True)) == Conditions(None, 5, 1, amp="off")
    assert seen((x, False), (x, False), (x, True), (x, True)).accumulation == 3
    assert seen((x, False)) == Conditions()
    assert seen(({"n": 3, "x": torch.zeros(7, 3)}, True)).batch_per_worker == 7
    for amp in (torch.bfloat16, torch.float16):
        assert seen((x, True), amp=amp).amp == str(amp).removeprefix("torch.")


def test_evaluation_does_not_count() -> None:
    model = Model()
    watch = ConditionProbe(model)
    with torch.no_grad():
        model(torch.zeros(9, 3))
    model.eval()
    model(torch.zeros(9, 3))
    model.train()
    assert watch.found == Conditions()
    model(inputs=torch.zeros(2, 3))
    assert (watch.found.batch_per_worker, watch.found.accumulation) == (2, 1)
    assert not model._forward_pre_hooks


def test_what_is_told_comes_first() -> None:
    told = Conditions(None, 8, None, "SGD()", True, None)
    found = valid_for(told, Conditions(None, 9, 2, amp="off"), 4)
    assert found == ValidFor((4, 4), (8, 8), 2, "SGD()", True, "off")
    assert valid_for(Conditions(), Conditions(), 1) == ValidFor((1, 1))


def test_the_name_of_an_optimizer() -> None:
    parameters = [torch.zeros(1, requires_grad=True)]
    assert optimizer_name(None) is None
    assert optimizer_name(torch.optim.SGD(parameters, 1, momentum=0.9)) == "SGD(momentum=0.9)"
    assert optimizer_name(torch.optim.AdamW(parameters)) == "AdamW()"
