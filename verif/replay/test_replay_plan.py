# SPDX-License-Identifier: Apache-2.0
"""Replay plans: legal, complete, and right when they are driven into the device model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocotbext.cxl.wire.messages import S2MDRS, M2SReq, M2SRwD, ReqOp, RwdOp
from models.device import CommitCode, DeviceModel, DeviceParams, Mode, RegionConfig
from models.formats import F32, Tie, lines_needed
from models.regions import planes_kept, state_lines
from neuron_fabric.capture.reader import Capture, CaptureError, TensorSpec
from verif.replay.replay_plan import ReplayPlan, plan_replay
from verif.replay.routing import assign_routes, parse_routes
from verif.replay.tensors import expected_outputs, outputs_from_lines, pack_workers

REAL = Path(__file__).parents[2] / "captures" / "digits-resnet-8x"
ROUTES = [Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32]


def drive(
    model: DeviceModel, plan: ReplayPlan, gradients: dict[str, F32], pad: bool = False
) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """Every message of a replay into the model; what is read back, as tensors."""
    out = {}

    def read(addr: int) -> np.ndarray[Any, Any]:
        response = model.step(M2SReq(ReqOp.MEM_RD, 0, addr))
        assert isinstance(response, S2MDRS)
        assert not response.poison
        return np.frombuffer(response.data, dtype=np.uint8)

    for one in plan.rounds:
        for use in one.uses:
            assert model.commit(use.region, use.config, one.epoch) == CommitCode.OK
        for use in one.uses:
            at, mode = use.config.address, use.config.mode
            for place in use.placements:
                lines = pack_workers(gradients[place.tensor.name], mode)
                assert lines.shape[1] == place.lines
                for worker in range(plan.workers):
                    for i in range(place.lines):
                        data = lines[worker, i].tobytes()
                        addr = at(worker, place.first_line + i)
                        model.step(M2SRwD(RwdOp.MEM_WR, 0, addr, data=data))
            if pad:
                for worker in range(plan.workers):
                    for i in range(use.used_lines, use.config.lines):
                        model.step(M2SRwD(RwdOp.MEM_WR, 0, at(worker, i)))
            kept = planes_kept(plan.workers, plan.params.cnt_w) if mode.low_bit else 0
            for place in use.placements:
                span = range(place.first_line, place.first_line + place.lines)
                result = np.stack([read(at(0, i)) for i in span])
                planes = np.stack(
                    [np.stack([read(at(8 + p, i)) for i in span]) for p in range(kept)]
                    or [np.zeros((0, 64), dtype=np.uint8)]
                )
                out[place.tensor.name] = outputs_from_lines(
                    mode, place.tensor.shape, result, planes
                )
            assert model.region_status(use.region).complete_lines >= use.used_lines
            assert model.region_status(use.region).done == (pad or use.padding_lines == 0)
    return out


@pytest.mark.parametrize("memory", [20, 11, 10, 9])
def test_the_real_capture_through_the_model(memory: int) -> None:
    capture = Capture.open(REAL)
    routes = assign_routes(capture.tensors, parse_routes(["5.*=G_TERNARY"]))
    params = DeviceParams(mem_lines_log2=memory)
    plan = plan_replay(capture.tensors, routes, capture.world_size, params)
    assert len(plan.rounds) == {20: 1, 11: 1, 10: 2, 9: 4}[memory]
    model = DeviceModel(params)
    for number, step in enumerate(capture.steps):
        gradients = capture.load(step)
        got = drive(model, plan.from_epoch(1 + number * 10), gradients, pad=memory == 11)
        assert list(got)
        assert set(got) == set(gradients)
        for name, value in gradients.items():
            want = expected_outputs(value, routes[name])
            assert set(got[name]) == set(want)
            for suffix in want:
                same = got[name][suffix].view(np.uint8) == want[suffix].view(np.uint8)
                assert same.all(), (name, suffix)
    assert model.counters["REFUSED"] == model.counters["EARLY_READ"] == 0
    assert model.counters["DUPLICATE"] == 0


specs = st.lists(
    st.tuples(st.lists(st.integers(0, 40), max_size=3).map(tuple), st.sampled_from(ROUTES)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=120, deadline=None)
@given(specs, st.integers(1, 64), st.integers(6, 16), st.integers(1, 8), st.integers(0, 40))
def test_plans_are_legal_and_complete(
    tensors: list[tuple[tuple[int, ...], Mode]], workers: int, memory: int, cnt_w: int, keep: int
) -> None:
    listed = [TensorSpec(f"t{i}", shape) for i, (shape, _) in enumerate(tensors)]
    routes = {f"t{i}": mode for i, (_, mode) in enumerate(tensors)}
    params = DeviceParams(mem_lines_log2=memory, cnt_w=cnt_w)
    try:
        plan = plan_replay(listed, routes, workers, params, reserve_lines=keep, first_epoch=5)
    except CaptureError:
        # Refused only when one tensor, alone in the memory, is too large.
        room = params.mem_lines - (keep + 7) // 8 * 8
        assert any(
            state_lines(RegionConfig(0, 0, (n - 1).bit_length(), workers, mode), cnt_w) > room
            for n, mode in (
                (lines_needed(t.elements, routes[t.name]), routes[t.name]) for t in listed
            )
            if n
        )
        return
    model = DeviceModel(params)
    placed = []
    for _ in range(2):  # a device that has run the plan accepts it again
        for one in plan.rounds:
            for use in one.uses:
                assert model.commit(use.region, use.config, one.epoch) == CommitCode.OK
                assert use.config.state_line >= keep
                at = 0
                for place in use.placements:
                    assert place.first_line == at
                    at += place.lines
                    assert routes[place.tensor.name] == use.config.mode
                assert at == use.used_lines <= use.config.lines < 2 * at
    placed = sorted(place.tensor.name for _, _, place in plan.placements())
    assert placed == sorted(t.name for t in listed if t.elements)
    assert [one.epoch for one in plan.rounds] == list(range(5, 5 + len(plan.rounds)))
    assert len(plan.describe()) == sum(len(one.uses) for one in plan.rounds)


def test_options_reach_the_descriptor() -> None:
    plan = plan_replay(
        [TensorSpec("a", (4, 4))],
        {"a": Mode.G_BINARY},
        2,
        DeviceParams(),
        tie=Tie.MINUS,
        threshold=2,
        strict=True,
        bind=True,
    )
    config = plan.rounds[0].uses[0].config
    assert (config.tie_minus, config.threshold, config.strict, config.bind) == (True, 2, True, True)


def test_a_device_with_one_region_takes_turns() -> None:
    listed = [TensorSpec("a", (4, 4)), TensorSpec("b", (4,))]
    routes = {"a": Mode.G_BINARY, "b": Mode.FP32}
    plan = plan_replay(listed, routes, 2, DeviceParams(regions=1))
    assert [[u.region for u in one.uses] for one in plan.rounds] == [[0], [0]]


def test_what_does_not_fit_is_named() -> None:
    spec = TensorSpec("big", (1 << 12, 1 << 10))
    with pytest.raises(CaptureError) as caught:
        plan_replay([spec], {"big": Mode.FP32}, 8, DeviceParams())
    text = str(caught.value)
    assert text == (
        "tensor 'big' [4096, 1024]: by FP32 with 8 workers it needs a state area of 2359296 lines, "
        "the device's memory has 1048576; use a device with MEM_LINES_LOG2 >= 22 or another route"
    )
    assert plan_replay([spec], {"big": Mode.FP32}, 8, DeviceParams(mem_lines_log2=22)).rounds
    assert plan_replay([spec], {"big": Mode.G_BINARY}, 8, DeviceParams()).rounds


def test_other_refusals() -> None:
    spec = TensorSpec("a", (4,))
    for workers in (0, 65):
        with pytest.raises(CaptureError, match=f"{workers} workers, the device takes 64"):
            plan_replay([spec], {"a": Mode.FP32}, workers, DeviceParams())
    with pytest.raises(CaptureError, match=r"1\.\.255"):
        plan_replay([spec], {"a": Mode.FP32}, 1, DeviceParams(), threshold=0)
    with pytest.raises(CaptureError, match="no room for the windows"):
        plan_replay([spec], {"a": Mode.FP32}, 1, DeviceParams(mem_lines_log2=46))
    assert plan_replay([], {}, 1, DeviceParams()).rounds == ()
    assert plan_replay([TensorSpec("e", (0,))], {"e": Mode.FP32}, 1, DeviceParams()).rounds == ()


def test_a_round_may_be_filled_to_the_last_line() -> None:
    listed = [TensorSpec(name, (3 * 16,)) for name in "abcd"]
    listed += [TensorSpec("e", (16,)), TensorSpec("f", (16,))]
    routes = {t.name: Mode.FP32 for t in listed}
    # Room for 4 lines of 1 worker: 8 of 15 lines; 14 lines in all, so 4 rounds of 3 + 1.
    plan = plan_replay(listed, routes, 1, DeviceParams(mem_lines_log2=3))
    names = [[p.tensor.name for use in one.uses for p in use.placements] for one in plan.rounds]
    assert names == [["a", "e"], ["b", "f"], ["c"], ["d"]]
    assert [one.uses[0].padding_lines for one in plan.rounds] == [0, 0, 1, 1]
