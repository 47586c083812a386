# SPDX-License-Identifier: Apache-2.0
"""Tests of plans: the device accepts them, each line occurs once, and the device model returns the
right lines.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.commit_check import CommitCode, check_commit
from models.device import DeviceModel
from models.modes import Mode, Tie, lines_needed
from models.parameters import DeviceParams
from models.regions import RegionConfig, state_lines
from neuron_fabric.capture import CaptureError, TensorSpec
from verif.replay.plan import Plan, RegionUse, plan_step

ROUTES = [Mode.G_BINARY, Mode.G_TERNARY, Mode.G_INT4, Mode.G_INT8, Mode.FP32]


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


def test_options_reach_the_descriptor() -> None:
    plan = plan_step(
        [TensorSpec("a", (4, 4))],
        {"a": Mode.G_BINARY},
        2,
        DeviceParams(),
        tie=Tie.MINUS,
        threshold=2,
    )
    config = plan.epoch(0)[0].config
    assert (config.tie_minus, config.threshold) == (True, 2)


def test_a_device_with_one_region_takes_turns() -> None:
    listed = [TensorSpec("a", (4, 4)), TensorSpec("b", (4,))]
    routes = {"a": Mode.G_BINARY, "b": Mode.FP32}
    plan = plan_step(listed, routes, 2, DeviceParams(regions=1))
    assert [[use.region for use in uses] for _, uses in epochs(plan)] == [[0], [0]]


def test_what_does_not_fit_is_named() -> None:
    spec = TensorSpec("big", (1 << 12, 1 << 10))
    with pytest.raises(CaptureError) as caught:
        plan_step([spec], {"big": Mode.FP32}, 8, DeviceParams())
    text = str(caught.value)
    assert text == (
        "tensor 'big' [4096, 1024]: by FP32 with 8 workers it needs a state area of 2359296 lines, "
        "the device's memory has 1048576; use a device with MEM_LINES_LOG2 >= 22 or another route"
    )
    assert plan_step([spec], {"big": Mode.FP32}, 8, DeviceParams(mem_lines_log2=22)).epochs
    assert plan_step([spec], {"big": Mode.G_BINARY}, 8, DeviceParams()).epochs


def test_other_refusals() -> None:
    spec = TensorSpec("a", (4,))
    for workers in (0, 65):
        with pytest.raises(CaptureError, match=f"{workers} workers, the device takes 64"):
            plan_step([spec], {"a": Mode.FP32}, workers, DeviceParams())
    with pytest.raises(CaptureError, match=r"1\.\.255"):
        plan_step([spec], {"a": Mode.FP32}, 1, DeviceParams(), threshold=0)
    with pytest.raises(CaptureError, match="no room for the windows"):
        plan_step([spec], {"a": Mode.FP32}, 1, DeviceParams(mem_lines_log2=46))
    assert plan_step([], {}, 1, DeviceParams()).epochs == 0
    assert plan_step([TensorSpec("e", (0,))], {"e": Mode.FP32}, 1, DeviceParams()).epochs == 0


def test_an_epoch_may_be_filled_to_the_last_line() -> None:
    listed = [TensorSpec(name, (3 * 16,)) for name in "abcd"]
    listed += [TensorSpec("e", (16,)), TensorSpec("f", (16,))]
    routes = {t.name: Mode.FP32 for t in listed}
    # Room for 4 lines of 1 worker: 8 of 15 lines; 14 lines in all, so 4 epochs of 3 + 1.
    plan = plan_step(listed, routes, 1, DeviceParams(mem_lines_log2=3))
    names = [[e.tensor.name for use in uses for e in use.extents] for _, uses in epochs(plan)]
    assert names == [["a", "e"], ["b", "f"], ["c"], ["d"]]
    assert [u[0].config.lines - u[0].lines for _, u in epochs(plan)] == [0, 0, 1, 1]


# -- cut by size --------------------------------------------------------------------------------
TENSORS = (
    TensorSpec("a", (300, 700)),
    TensorSpec("empty", (0, 3)),
    TensorSpec("b", (17,)),
    TensorSpec("c", (5000,)),
    TensorSpec("d", ()),
    TensorSpec("e", (64, 64)),
)
MIXED = {
    "a": Mode.G_BINARY,
    "empty": Mode.G_BINARY,
    "b": Mode.FP32,
    "c": Mode.G_TERNARY,
    "d": Mode.G_BINARY,
    "e": Mode.FP32,
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
    plan = plan_step(TENSORS, MIXED, 8, params, epoch_lines_log2=log2)
    wanted = {
        t.name: list(range(lines_needed(t.elements, MIXED[t.name]))) for t in TENSORS if t.elements
    }
    assert covered(plan) == wanted
    assert plan.lines == sum(len(lines) for lines in wanted.values())
    for first in {0, plan.epochs // 2, plan.epochs - 1}:
        accepted(plan, first)
    with pytest.raises(IndexError):
        plan.epoch(plan.epochs)


def test_all_routes_are_at_work_in_every_large_epoch() -> None:
    plan = plan_step(TENSORS, MIXED, 8, DeviceParams(), epoch_lines_log2=5)
    assert plan.epochs == -(-411 // 32)
    assert all(len(plan.epoch(number)) == 3 for number in range(plan.epochs))


def test_a_device_without_room_is_named() -> None:
    with pytest.raises(CaptureError, match="MEM_LINES_LOG2"):
        plan_step(
            *([TensorSpec("x", (4,))], {"x": Mode.FP32}, 64, DeviceParams(mem_lines_log2=4)),
            epoch_lines_log2=4,
        )


def test_nothing_to_send_is_no_epoch() -> None:
    plan = plan_step(
        [TensorSpec("e", (0,))], {"e": Mode.FP32}, 1, DeviceParams(), epoch_lines_log2=3
    )
    assert (plan.epochs, plan.lines) == (0, 0)
