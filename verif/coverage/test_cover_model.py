# SPDX-License-Identifier: Apache-2.0
"""Tests of functional coverage: hits, holes and merging; sampling hits planned bins only."""

import json
from itertools import product
from typing import Any

import msgspec
import pytest

from models.device import DeviceModel
from models.modes import FIRST_EDITION, Mode
from models.regions import RegionConfig
from verif.coverage import coverage_plan, white_box
from verif.coverage.cover_model import CoverModel
from verif.coverage.coverage_plan import PlanEntry
from verif.coverage.device_coverage import NfCoverage
from verif.coverage.white_box import PlannedPoint, WhiteBoxPoints
from verif.mem.memory_config import MemBeat
from verif.scoreboard.scoreboard import Scoreboard


def _model() -> CoverModel:
    model = CoverModel()
    model.point("p", "because", ["a", "b", "c"], test="test_x::y")
    return model


def test_holes_and_merge() -> None:
    merged = _model()
    for name in ("a", "b"):
        run = _model()
        run.points["p"].hit(name)
        run.points["p"].hit("unplanned")
        hits = json.loads(json.dumps(run.hits()))
        assert hits == {"p": {name: 1, "unplanned": 1}}  # no zeros: it travels with every record
        merged.add(hits)
    merged.add({"gone": {"x": 3}})
    assert merged.points["p"].holes == ["c"]
    assert merged.points["p"].unexpected == {"unplanned": 2}
    assert merged.points["gone"].unexpected == {"x": 3}


def test_a_bin_below_its_floor_is_a_hole() -> None:
    point = CoverModel().point("p", "because", ["a", "b"], test="test_x::y", at_least=3)
    point.hit("a", times=3)
    point.hit("b", times=2)
    assert point.holes == ["b"]


def test_an_illegal_bin_is_told_at_once() -> None:
    told: list[str] = []
    model = CoverModel(told.append)
    point = model.point("p", "because", ["a"], test="test_x::y", illegal=["x"])
    point.hit("a")
    assert told == []
    point.hit("x")
    assert told == ["COVERAGE illegal bin of 'p': x (because)"]
    assert point.holes == []
    model.add({"p": {"x": 1}})  # has failed its own run
    assert (point.unexpected, len(told)) == ({"x": 2}, 1)
    with pytest.raises(ValueError, match="both wanted and illegal"):
        model.point("q", "because", ["a"], test="test_x::y", illegal=["a"])
    with pytest.raises(ValueError, match="exists"):
        model.point("p", "because", ["a"], test="test_x::y")


def test_a_cross_has_a_bin_for_each_combination() -> None:
    model = CoverModel()
    cross = model.cross(
        "c",
        "because; a dog has one place",
        {"animal": ["cat", "dog"], "place": ["in", "out"]},
        test="test_x::y",
        never=[{"animal": ["dog"], "place": ["out"]}],
    )
    assert [*cross.bins] == ["cat x in", "cat x out", "dog x in"]
    cross.hit("cat", "out")
    cross.hit("dog", "out")
    assert model.hits() == {"c": {"cat x out": 1}}
    model.hit("c", "cow", "in", times=2)
    assert model.hits()["c"] == {"cat x out": 1, "cow x in": 2}
    assert cross.holes == ["cat x in", "dog x in"]
    with pytest.raises(ValueError, match="stands between"):
        model.cross("d", "because", {"a": ["1 x 2"]}, test="test_x::y")


def test_beats_fall_into_planned_bins() -> None:
    coverage = NfCoverage()
    scoreboard = Scoreboard(DeviceModel(), 8, observer=coverage)
    coverage.watch(scoreboard)
    for region, mode in enumerate(FIRST_EDITION):
        keep_sum = mode is Mode.FP32
        base, state = (region + 1) << 40, region << 20
        scoreboard.commit_begin(region, RegionConfig(base, state, 2, 5, mode, keep_sum=keep_sum), 1)
        scoreboard.commit_end(region)
    lines = (1, *(k + (region << 14) for region in range(4) for k in (0, 1, 20, 21, 255)))
    for write, line in product((True, False), lines):
        for axi_id, strobe, resp in product((0, 3), (3, (1 << 64) - 1), (2, 3)):
            coverage.beat(MemBeat(write, axi_id, line, 2, strobe, True, resp))
        poisoned = MemBeat(write, 1, line, 2, 3, True, 0)
        if not write or scoreboard.memory.located(poisoned)[1] in ("MEMORY", "IDENTITY"):
            coverage.beat(poisoned)
    assert scoreboard.errors == []
    points = coverage.model.points
    assert [name for name, point in points.items() if point.unexpected] == []
    assert all(points["memory side-band"].bins.values())


def test_the_plan_names_sampled_points_alone() -> None:
    boxes = {box.plan.name for box in WhiteBoxPoints(CoverModel()).boxes}
    made = {name for name in NfCoverage().model.points if not name.startswith("changes in ")}
    assert set(coverage_plan.entries()) == made - boxes


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (coverage_plan._Plan, "codes = {}\npoints = {}\nshown_by = {}\n"),
        (PlanEntry, "reason = ''\ntest = ''\n"),
        (PlannedPoint, "reason = ''\ntest = ''\nname = ''\nmodule = ''\narray = ''\n"),
        (white_box._Plan, "codes = {}\npoints = []\n"),
    ],
)
def test_a_plan_has_no_unknown_names(kind: Any, text: str) -> None:
    msgspec.toml.decode(text, type=kind)
    with pytest.raises(msgspec.ValidationError, match="unknown field `tset`"):
        msgspec.toml.decode(f"tset = ''\n{text}", type=kind)
