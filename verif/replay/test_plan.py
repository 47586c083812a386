# SPDX-License-Identifier: Apache-2.0
"""Tests of plans: the device accepts them, each line occurs once, and the device model returns the
right lines.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.commit_check import CommitCode, check_commit
from models.device import DeviceModel
from models.modes import Mode, lines_needed
from models.parameters import DeviceParams
from models.regions import RegionConfig, state_lines
from neuron_fabric.capture import CaptureError, TensorSpec
from verif.replay.plan import Plan, RegionUse, plan_step

ROUTES = [Mode.G_BINARY, Mode.G_TERNARY, Mode.G_INT4, Mode.G_INT8, Mode.FP32]
Tensors = Mapping[str, tuple[tuple[int, ...], Mode]]
"""Shape and route of each tensor by name."""


def planned(tensors: Tensors, workers: int, params: DeviceParams | None = None, **how: Any) -> Plan:
    """Return the plan of some tensors; ``how`` are other arguments of `plan_step`."""
    listed = [TensorSpec(name, shape) for name, (shape, _) in tensors.items()]
    routes = {name: mode for name, (_, mode) in tensors.items()}
    return plan_step(listed, routes, workers, params or DeviceParams(), **how)


def epochs(plan: Plan) -> list[tuple[int, tuple[RegionUse, ...]]]:
    return [(number, plan.epoch(number)) for number in range(plan.epochs)]


specs = st.lists(
    st.tuples(st.lists(st.integers(0, 40), max_size=3).map(tuple), st.sampled_from(ROUTES)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=120, deadline=None)
@given(specs, st.integers(1, 64), st.integers(6, 16), st.integers(1, 8))
def test_plans_are_legal_and_complete(
    tensors: list[tuple[tuple[int, ...], Mode]], workers: int, memory: int, cnt_w: int
) -> None:
    listed = [TensorSpec(f"t{i}", shape) for i, (shape, _) in enumerate(tensors)]
    routes = {f"t{i}": mode for i, (_, mode) in enumerate(tensors)}
    params = DeviceParams(mem_lines_log2=memory, cnt_w=cnt_w)
    try:
        plan = plan_step(listed, routes, workers, params)
    except CaptureError:
        # Refused only when one tensor, alone in the memory, is too large, or W too many to sum.
        assert any(
            routes[t.name].bits and t.elements and workers > params.cnt_max for t in listed
        ) or any(
            state_lines(RegionConfig(0, 0, (n - 1).bit_length(), workers, mode), cnt_w)
            > params.mem_lines
            for n, mode in (
                (lines_needed(t.elements, routes[t.name]), routes[t.name]) for t in listed
            )
            if n
        )
        return
    model = DeviceModel(params)
    placed = []
    for turn in range(2):  # a device that has run the plan accepts it again
        for number, uses in epochs(plan):
            for use in uses:
                epoch = 5 + turn * plan.epochs + number
                assert model.commit(use.region, use.config, epoch) == CommitCode.OK
                assert use.lines <= use.config.lines < 2 * use.lines
                for extent in use.extents:
                    assert (extent.first, extent.lines) == (
                        0,
                        lines_needed(extent.tensor.elements, use.route),
                    )
                    assert routes[extent.tensor.name] == use.route
                    placed.append(extent.tensor.name)
    assert sorted(placed) == sorted(2 * [t.name for t in listed if t.elements])
    assert plan.writes == workers * sum(use.lines for _, uses in epochs(plan) for use in uses)


BIG = (1 << 12, 1 << 10)
NO_ROOM = (
    "tensor 'big' [4096, 1024]: by FP32 with 8 workers it needs a state area of 2359296 lines, "
    "the device's memory has 1048576; use a device with MEM_LINES_LOG2 >= 22 or another route"
)
REFUSED: dict[str, tuple[tuple[int, ...], int, dict[str, int], dict[str, int], str]] = {
    "no room": (BIG, 8, {}, {}, re.escape(NO_ROOM)),
    "no worker": ((4,), 0, {}, {}, "0 workers, the device takes 64"),
    "too many workers": ((4,), 65, {}, {}, "65 workers, the device takes 64"),
    "windows": ((4,), 1, {"mem_lines_log2": 46}, {}, "no room for the windows"),
    "no room for a line": (
        *((4,), 64, {"mem_lines_log2": 4}, {"epoch_lines_log2": 4}),
        "MEM_LINES_LOG2",
    ),
}


@pytest.mark.parametrize(
    ("shape", "workers", "params", "how", "text"), REFUSED.values(), ids=REFUSED.keys()
)
def test_refusals(
    shape: tuple[int, ...],
    workers: int,
    params: dict[str, Any],
    how: dict[str, int],
    text: str,
) -> None:
    with pytest.raises(CaptureError, match=text):
        planned({"big": (shape, Mode.FP32)}, workers, DeviceParams(**params), **how)


def test_what_fits_is_planned() -> None:
    assert planned({"big": (BIG, Mode.FP32)}, 8, DeviceParams(mem_lines_log2=22)).epochs
    assert planned({"big": (BIG, Mode.G_BINARY)}, 8).epochs
    for log2 in (None, 3):
        for tensors in ({}, {"e": ((0,), Mode.FP32)}):
            plan = planned(tensors, 1, epoch_lines_log2=log2)
            assert (plan.epochs, plan.lines) == (0, 0)


def test_an_epoch_may_be_filled_to_the_last_line() -> None:
    lines = {"a": 3, "b": 3, "c": 3, "d": 3, "e": 1, "f": 1}
    tensors = {name: ((16 * count,), Mode.FP32) for name, count in lines.items()}
    # Room for 4 lines of 1 worker: 8 of 15 lines; 14 lines in all, so 4 epochs of 3 + 1.
    plan = planned(tensors, 1, DeviceParams(mem_lines_log2=3))
    names = [[e.tensor.name for use in uses for e in use.extents] for _, uses in epochs(plan)]
    assert names == [["a", "e"], ["b", "f"], ["c"], ["d"]]
    assert [u[0].config.lines - u[0].lines for _, u in epochs(plan)] == [0, 0, 1, 1]


# -- cut by size --------------------------------------------------------------------------------
MIXED: dict[str, tuple[tuple[int, ...], Mode]] = {
    "a": ((300, 700), Mode.G_BINARY),
    "empty": ((0, 3), Mode.G_BINARY),
    "b": ((17,), Mode.FP32),
    "c": ((5000,), Mode.G_TERNARY),
    "d": ((), Mode.G_BINARY),
    "e": ((64, 64), Mode.FP32),
}


def covered(plan: Plan) -> dict[str, list[int]]:
    """Return the line indices of each tensor in the order in which a plan drives them."""
    out: dict[str, list[int]] = {}
    for _, uses in epochs(plan):
        for use in uses:
            assert 0 < use.lines <= use.config.lines
            for extent in use.extents:
                own = out.setdefault(extent.tensor.name, [])
                own += range(extent.first, extent.first + extent.lines)
    return out


def accepted(plan: Plan, first: int) -> None:
    """Check that a device which begins with epoch ``first`` of a plan accepts all its commits."""
    active: dict[int, RegionConfig] = {}
    for _, uses in epochs(plan)[first:]:
        for use in uses:
            others = [config for region, config in active.items() if region != use.region]
            assert check_commit(plan.params, use.config, others) == CommitCode.OK
            active[use.region] = use.config


@pytest.mark.parametrize("log2", [0, 3, 12])
@pytest.mark.parametrize(
    "params", [DeviceParams(), DeviceParams(regions=1), DeviceParams(mem_lines_log2=8)]
)
def test_every_line_once_in_order(params: DeviceParams, log2: int) -> None:
    plan = planned(MIXED, 8, params, epoch_lines_log2=log2)
    sizes = {name: (math.prod(shape), mode) for name, (shape, mode) in MIXED.items()}
    wanted = {name: list(range(lines_needed(*size))) for name, size in sizes.items() if size[0]}
    assert covered(plan) == wanted
    assert plan.lines == sum(len(lines) for lines in wanted.values())
    for first in {0, plan.epochs // 2, plan.epochs - 1}:
        accepted(plan, first)
    with pytest.raises(IndexError):
        plan.epoch(plan.epochs)


def test_all_routes_are_at_work_in_every_large_epoch() -> None:
    plan = planned(MIXED, 8, epoch_lines_log2=5)
    assert plan.epochs == -(-411 // 32)
    assert all(len(plan.epoch(number)) == 3 for number in range(plan.epochs))
