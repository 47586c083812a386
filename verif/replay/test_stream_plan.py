# SPDX-License-Identifier: Apache-2.0
"""Every line of every tensor once, in order, on regions that the device accepts at any round."""

from __future__ import annotations

import pytest

from models.formats import Mode, lines_needed
from models.regions import CommitCode, DeviceParams, RegionConfig, check_commit
from neuron_fabric.capture.reader import TensorSpec
from neuron_fabric.errors import CaptureError
from verif.replay.stream_plan import StreamPlan, plan_stream

TENSORS = (
    TensorSpec("a", (300, 700)),
    TensorSpec("empty", (0, 3)),
    TensorSpec("b", (17,)),
    TensorSpec("c", (5000,)),
    TensorSpec("d", ()),
    TensorSpec("e", (64, 64)),
)
ROUTES = {
    "a": Mode.G_BINARY,
    "empty": Mode.G_BINARY,
    "b": Mode.FP32,
    "c": Mode.G_TERNARY,
    "d": Mode.G_BINARY,
    "e": Mode.FP32,
}


def covered(plan: StreamPlan) -> dict[str, list[int]]:
    """Lines of each tensor in the order driven."""
    out: dict[str, list[int]] = {}
    for number in range(plan.rounds):
        for share in plan.round(number):
            assert 0 < share.lines <= share.config.lines
            for extent in share.extents:
                own = out.setdefault(extent.tensor.name, [])
                own += range(extent.first, extent.first + extent.lines)
    return out


def accepted(plan: StreamPlan, first: int) -> None:
    """The device's own checks, for a device that begins with round ``first``."""
    active: dict[int, RegionConfig] = {}
    for number in range(first, plan.rounds):
        for share in plan.round(number):
            others = [config for region, config in active.items() if region != share.region]
            assert check_commit(plan.params, share.config, others) == CommitCode.OK
            active[share.region] = share.config


@pytest.mark.parametrize("log2", [0, 3, 12])
@pytest.mark.parametrize(
    "params", [DeviceParams(), DeviceParams(regions=1), DeviceParams(mem_lines_log2=8)]
)
def test_every_line_once_in_order(params: DeviceParams, log2: int) -> None:
    plan = plan_stream(TENSORS, ROUTES, 8, params, round_lines_log2=log2)
    wanted = {
        t.name: list(range(lines_needed(t.elements, ROUTES[t.name]))) for t in TENSORS if t.elements
    }
    assert covered(plan) == wanted
    assert plan.lines == sum(len(lines) for lines in wanted.values())
    for first in {0, plan.rounds // 2, plan.rounds - 1}:
        accepted(plan, first)
    with pytest.raises(IndexError):
        plan.round(plan.rounds)


def test_all_routes_are_at_work_in_every_large_round() -> None:
    plan = plan_stream(TENSORS, ROUTES, 8, DeviceParams(), round_lines_log2=5)
    assert plan.rounds == -(-411 // 32)
    assert all(len(plan.round(number)) == 3 for number in range(plan.rounds))


def test_a_device_without_room_is_named() -> None:
    with pytest.raises(CaptureError, match="MEM_LINES_LOG2"):
        plan_stream([TensorSpec("x", (4,))], {"x": Mode.FP32}, 64, DeviceParams(mem_lines_log2=4))
