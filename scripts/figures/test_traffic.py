# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf measure figures traffic`: values by hand, laws, and slots used by the RTL."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.modes import Mode, lines_needed
from models.parameters import DeviceParams
from neuron_fabric.capture import TensorSpec
from neuron_fabric.codec.routes import Route
from neuron_fabric.profile.profile_types import Kind as Role
from neuron_fabric.reducers.server_wire import PartShape, Submit
from neuron_fabric.reducers.shared_lines import BucketShape
from scripts.build import bulk_build
from scripts.cli.main import make_parser
from scripts.figures import result_file, traffic_figure
from scripts.figures.traffic_figure import (
    NETWORKS,
    POLICIES,
    Choice,
    Network,
    Tensor,
    Traffic,
    choices,
    count,
    ring_bytes,
)
from verif.host.c_interface import Block, Figures, Kind, operations
from verif.replay.plan import plan_step
from verif.serve.served_bucket import MODES, bucket_of

W = 8
SMALL = Network(
    "small",
    (
        Tensor("body", (513,), Role.LINEAR),
        Tensor("norm", (20,), Role.NORM),
        Tensor("head", (10, 5), Role.HEAD),
    ),
)


def choice(mode: Mode, view: str, workers: int = W) -> Choice:
    """Return the choice of a mode and view for so many workers."""
    return next(one for one in choices(workers) if (one.mode, one.view) == (mode, view))


@pytest.mark.parametrize(
    ("mode", "view", "policy", "written", "read"),
    [
        # 513 signs: 2 lines; 20 signs, 50 signs: a line each; a line of scales, one of presence.
        (Mode.G_BINARY, "vote", "all low-bit", 4 + 2, 4 + 2),
        # Counts 0..8 need 4 planes.
        (Mode.G_BINARY, "planes", "all low-bit", 4 + 2, 16 + 2),
        # 50 values of FP32: 4 lines of 16, read once as their sum.
        (Mode.G_BINARY, "planes", "head in FP32", 3 + 4 + 2, 12 + 4 + 2),
        # 20 values: 2 lines.
        (Mode.G_BINARY, "vote", "head, norms and biases in FP32", 2 + 2 + 4 + 2, 2 + 2 + 4 + 2),
        # 256 codes a line: 3 + 1 + 1.
        (Mode.G_TERNARY, "vote", "all low-bit", 5 + 2, 5 + 2),
        # 320 codes a line: 2 + 1 + 1; counts 0..16 need 5 planes.
        (Mode.G_TERN5, "vote", "all low-bit", 4 + 2, 4 + 2),
        (Mode.G_TERN5, "planes", "all low-bit", 4 + 2, 20 + 2),
        # 128 codes a line: 5 + 1 + 1; 3 largest |x| in one line, read from 8 workers.
        (Mode.G_INT4, "SUM8", "all low-bit", 7 + 2 + 1, 14 + 2 + 8),
        (Mode.G_INT4, "SUM16", "all low-bit", 7 + 2 + 1, 28 + 2 + 8),
        # 64 codes a line: 9 + 1 + 1.
        (Mode.G_INT8, "SUM16", "all low-bit", 11 + 2 + 1, 22 + 2 + 8),
        (Mode.G_INT8, "planes", "all low-bit", 11 + 2 + 1, 44 + 2 + 8),
        # 33 + 2 + 4 lines.
        (Mode.FP32, "sum", "all low-bit", 39, 39),
        (Mode.FP32, "every worker's line", "all low-bit", 39, 39 * 8),
        (Mode.IDENTITY, "every worker's line", "all low-bit", 39, 39 * 8),
    ],
)
def test_lines_by_hand(mode: Mode, view: str, policy: str, written: int, read: int) -> None:
    found = count(SMALL, choice(mode, view), POLICIES[policy], W)
    assert (found.written, found.read, found.elements) == (written, read, 583)


def test_bytes_by_hand() -> None:
    """Check the bytes of two written and three read lines, computed by hand.

    Up: 8 slots of data and 5 headers; down: 12, 3 headers and one slot with both completions.
    """
    found = Traffic(elements=1024, written=2, read=3)
    up, down = found.up, found.down
    assert (up.payload, up.headers, up.framing, up.wire) == (128, 80, 13, 221)
    assert (down.payload, down.headers, down.framing, down.wire) == (192, 64, 16, 272)
    assert (found.payload, found.wire) == (320, 493)
    assert ring_bytes(10, 4) == 2 * (2 * 3 / 4) * 4 * 10
    assert ring_bytes(10, 1) == 0


@pytest.mark.parametrize(
    ("name", "elements", "tensors", "head"),
    [
        ("resnet18", 11_173_962, 62, 512 * 10 + 10),
        ("resnet18-100", 11_220_132, 62, 512 * 100 + 100),
        ("resnet50", 25_557_032, 161, 2048 * 1000 + 1000),
        ("distilbert", 66_955_010, 104, 768 * 2 + 2),
        # 12 L d^2 + 13 L d, two norms' d, tokens and positions.
        ("lm", 12 * 24 * 2048**2 + 13 * 24 * 2048 + 2 * 2048 + (50_257 + 2048) * 2048, 292,
         50_257 * 2048),
    ],
)  # fmt: skip
def test_networks_have_their_known_sizes(name: str, elements: int, tensors: int, head: int) -> None:
    network = NETWORKS[name]
    assert (network.elements, len(network.tensors)) == (elements, tensors)
    assert network.elements_of(Role.HEAD) == head
    assert len({tensor.name for tensor in network.tensors}) == tensors


NETWORK = st.lists(
    st.tuples(st.integers(1, 5000), st.sampled_from(list(Role))), min_size=1, max_size=6
).map(
    lambda made: Network(
        "drawn", tuple(Tensor(f"t{n}", (size,), role) for n, (size, role) in enumerate(made))
    )
)


REPLAYED = [m for m in Mode if m != Mode.IDENTITY and not m.optional]
SERVED = {mode: route for route, mode in MODES.items() if mode.low_bit}


@given(NETWORK, st.integers(1, 64), st.sampled_from(REPLAYED))
def test_lines_are_those_of_a_replay(network: Network, workers: int, mode: Mode) -> None:
    """Check that the counted lines are those that the planner of replays sends and reads.

    The planner is separate code; it knows all scales beforehand, so it sends no sidecar.
    """
    tensors = [TensorSpec(one.name, one.shape) for one in network.tensors]
    plan = plan_step(tensors, {one.name: mode for one in tensors}, workers, DeviceParams())
    ours = [one for one in choices(workers) if one.mode == mode and "worker" not in one.view]
    found = [count(network, one, frozenset(), workers) for one in ours]
    maxima = maxima_lines(network, mode)
    side = 2 if mode.low_bit else 0  # of six tensors at most
    assert {one.written - side - maxima for one in found} == {plan.lines}
    assert sum(one.read - side - maxima * workers for one in found) == plan.reads


def maxima_lines(network: Network, mode: Mode) -> int:
    """Return the lines that hold the largest |x| of each 1,024 elements, in modes of codes."""
    numbers = sum(-(-one.elements // 1024) for one in network.tensors)
    return -(-numbers * 4 // 64) if mode.bits else 0


@given(st.integers(1, 70), st.integers(0, 3), st.sampled_from(list(SERVED)))
def test_lines_are_those_of_a_training(low: int, full: int, mode: Mode) -> None:
    """Check that the counted lines are those that the reducer server sends for a bucket.

    The bucket has ``low`` tensors in a low-bit mode and ``full`` in FP32, with its sidecar; the
    largest |x| are not sent with it.
    """
    body = Network("body", tuple(Tensor(f"t{n}", (700,), Role.LINEAR) for n in range(low)))
    heads = tuple(Tensor(f"h{n}", (33,), Role.HEAD) for n in range(full))
    parts = (
        PartShape(SERVED[mode], False, low * lines_needed(700, mode), 0),
        PartShape(Route.FP32, False, full * lines_needed(33, Mode.FP32), 0),
    )
    sent = np.zeros((1, BucketShape(parts, low).lines, 64), np.uint8)
    said = Submit(0, 0, 0, parts, columns=low, present=low, poison=0)
    served = bucket_of(said, sent, sent, (mode, Mode.FP32))
    network = Network("all", body.tensors + heads)
    for one in choices(W):
        if one.mode == mode:
            found = count(network, one, POLICIES["head in FP32"], W)
            assert found.written - maxima_lines(body, mode) == served.lines


def test_slots_are_those_that_the_rtl_takes(tmp_path: Path) -> None:
    """Check the counted slots of plain writes and reads against those that the C++ host counts."""
    lines, params = 96, DeviceParams()
    with closing(bulk_build.build("verilator").open(tmp_path, params.mem_lines_log2, 1)) as device:
        for kind in (Kind.WRITE, Kind.READ):
            before = device.figures()
            ops = operations(lines, kind)
            ops["address"] = [64 * n for n in range(lines)]
            if kind == Kind.READ:
                ops["line"] = range(lines)
            device.run(Block.of(ops, np.zeros((1, 64), np.uint8), got_lines=lines))
            after = device.figures()
            wants = Traffic(0, lines, 0) if kind == Kind.WRITE else Traffic(0, 0, lines)
            up = _slots(before, after, "to_device")
            down = _slots(before, after, "from_device")
            assert up == (wants.up.payload + wants.up.headers) / 16
            # Completions travel by one or two.
            least = (wants.down.payload + wants.down.headers) / 16
            assert least <= down <= least + wants.written / 2


def _slots(before: Figures, after: Figures, way: str) -> int:
    def total(figures: Figures) -> int:
        slots = getattr(figures, f"slots_{way}")
        return sum(map(sum, slots)) + 4 * int(getattr(figures, f"data_flits_{way}"))

    return total(after) - total(before)


def test_command_leaves_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that terminal and result file have the same content, with the set-up."""
    monkeypatch.setattr("scripts.common.paths.HISTORY", tmp_path / "history.sqlite")
    args = make_parser("measure figures").parse_args(["measure", "figures", "traffic"])
    wrote = result_file.measure("traffic", lambda: traffic_figure.run(args), "nf", tmp_path)
    assert result_file.read("traffic", tmp_path) == wrote
    said = capsys.readouterr().out
    assert all(what in said for what, _ in wrote.set_up)
    assert len(wrote.tables) == len(POLICIES) * (1 + len(NETWORKS))
    table = wrote.tables[len(POLICIES) + 2]  # after those of the capture
    row = next(r for r in table.rows if r[:2] == ("G_BINARY", "vote"))
    assert [f"{value:.2f}" for value in row[6:8] if isinstance(value, float)] == ["3.25", "1.86"]
    for name, value in wrote.followed.items():
        assert value > 0
        assert "% of FP32" in name
