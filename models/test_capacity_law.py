# SPDX-License-Identifier: Apache-2.0
"""Tests of the cost model's placements against the rules by which the device model commits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.commit_check import CommitCode, check_commit
from models.modes import Mode
from models.parameters import DeviceParams
from models.regions import RegionConfig, record_lines, state_lines
from neuron_fabric.capacity import cost_model
from neuron_fabric.codec.routes import Route

MODES = {route: Mode[route.name] for route in Route}


def committed(route: Route, workers: int, log2: int, params: DeviceParams, state: int) -> int:
    base = max(params.mem_lines, 1 << (log2 + 8)) << 6
    config = RegionConfig(base, state << 6, log2, workers, MODES[route])
    return check_commit(params, config, ())


@given(st.sampled_from(sorted(MODES)), st.integers(1, 64), st.integers(0, 20), st.integers(1, 8))
def test_sizes_of_state_are_the_models(route: Route, workers: int, log2: int, cnt_w: int) -> None:
    config = RegionConfig(0, 0, log2, workers, MODES[route])
    assert cost_model.state_lines(route, workers, 1 << log2, cnt_w) == state_lines(config, cnt_w)
    assert cost_model.record_lines(workers, cnt_w) == record_lines(workers, cnt_w)


@given(
    st.sampled_from(sorted(MODES)),
    st.integers(1, 64),
    st.integers(1, 1 << 26),
    st.integers(4, 24),
)
def test_a_device_commits_what_is_placed(
    route: Route, workers: int, elements: int, mem: int
) -> None:
    """Check that the device accepts a placement in two adjacent regions, and no larger regions.

    It also refuses one line if the cost model finds no placement.
    """
    device = cost_model.Device(mem_lines_log2=mem)
    params = DeviceParams(mem_lines_log2=mem)
    placed = cost_model.place(device, route, elements, workers)
    if placed is None:
        one = cost_model.state_lines(route, workers, 1, 8)
        assert committed(route, workers, 0, params, one) != CommitCode.OK
        return
    half = placed.state // 2
    for start in (0, half):
        assert committed(route, workers, placed.lines_log2, params, start) == CommitCode.OK
    if placed.rounds > 1:
        wider = committed(route, workers, placed.lines_log2 + 1, params, 2 * half)
        assert wider != CommitCode.OK


@pytest.mark.parametrize(("workers", "cnt_w"), [(8, 3), (64, 6), (1, 8)])
def test_counters_that_are_too_narrow(workers: int, cnt_w: int) -> None:
    reasons = cost_model.refusals(cost_model.Device(cnt_w=cnt_w), Route.G_BINARY, 512, workers)
    assert bool(reasons) == (workers > DeviceParams(cnt_w=cnt_w).cnt_max)
