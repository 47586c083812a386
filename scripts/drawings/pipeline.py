# SPDX-License-Identifier: Apache-2.0
"""Pipeline of the engine in time, from the waves of a simulation.

nf run test_engine_timing::latency_and_interval --sim icarus --seed 1 --waves
python -m scripts.drawings.pipeline build/runs/RUN/waves.fst     write pipeline.json
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pywellen import Waveform

from neuron_fabric.errors import say
from scripts.common import data
from scripts.common.errors import NfError
from scripts.common.git import revision
from scripts.drawings.sheet import INK, PALE, TINTS, Box, Sheet
from scripts.report.invocation import moment

FILE = Path(__file__).with_suffix(".json")
ENGINE = "nf_controller.u_core.u_engine."
STAGES = {
    "SL": ("op_valid", "op_ready"),
    "S0": ("s0_valid",),
    "S1": ("s1_valid_q",),
    "S2": ("s2_valid_q",),
    "S3": ("s3_valid_q",),
    "NDR": ("ndr_valid",),
    "DRS": ("drs_valid",),
    "hit": ("slot_hit",),
}
"""Signals of the engine that are all 1 while an operation is in a stage."""
SHOWN = ("SL", "S0", "S1", "S2", "S3", "NDR", "DRS")
BURST = 12
"""Operations of the last scene, one a clock."""


@dataclass(frozen=True)
class Scene:
    """Clocks, from 0, in which each stage holds an operation."""

    title: str
    stages: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class WaveRecording:
    """Scenes with commit and date of their recording."""

    commit: str
    date: str
    scenes: tuple[Scene, ...]


def clocks(file: Path) -> Iterator[tuple[int, set[str]]]:
    """Yield number and occupied stages of each clock in which the engine works.

    Raises:
        NfError: the waves lack a signal of the engine.
    """
    waves = Waveform(str(file))
    found = {var.full_name: var for var in waves.all_vars()}
    names = {name for every in STAGES.values() for name in every} | {"clk"}
    if missing := sorted(name for name in names if ENGINE + name not in found):
        raise NfError(f"{file} has no {ENGINE}{missing[0]}: record a build of all signals.")
    signals = {name: found[ENGINE + name].signal for name in names}
    clk = signals["clk"].value_at
    rise = [t for t in range(500, 50_000, 500) if clk(t) == 1 and clk(t - 500) == 0]
    idle, number = 0, 0
    while idle < 20_000:  # the waves end with the last value of each signal
        at = rise[0] - 1 + number * (rise[1] - rise[0])
        busy = {
            stage
            for stage, every in STAGES.items()
            if all(signals[name].value_at(at) == 1 for name in every)
        }
        if busy:
            yield number, busy
        idle = 0 if busy else idle + 1
        number += 1


def scenes(busy: Sequence[tuple[int, set[str]]]) -> list[Scene]:
    """Choose a first write, a write that hits, a vote read, and writes in consecutive clocks.

    Raises:
        NfError: the run has no such operation.
    """
    alone = [
        [one for _, one in group]
        for _, group in groupby(enumerate(busy), lambda pair: pair[1][0] - pair[0])
    ]
    wanted: dict[str, Callable[[list[str]], bool]] = {
        "first write of a line": lambda names: "NDR" in names and "hit" not in names,
        "write that hits a slot": lambda names: "NDR" in names and "hit" in names,
        "read of a vote": lambda names: "DRS" in names and "hit" in names,
    }
    out = []
    for title, fits in wanted.items():
        for group in alone:
            names = [stage for _, stages in group for stage in stages]
            if names.count("SL") == 1 and fits(names):
                out.append(_scene(title, group))
                break
        else:
            raise NfError(f"the waves show no {title}.")
    taken = [number for number, stages in busy if "SL" in stages]
    streak = next((n for n in taken if set(range(n - 6, n + BURST)) <= set(taken)), None)
    if streak is None:
        raise NfError(f"the waves show no {BURST} operations in consecutive clocks.")
    rows = [one for one in busy if streak <= one[0] < streak + BURST + 4]
    return [*out, _scene("writes to one line, one in each clock", rows)]


def _scene(title: str, rows: Sequence[tuple[int, set[str]]]) -> Scene:
    first = rows[0][0]
    stages = {
        stage: tuple(number - first for number, busy in rows if stage in busy) for stage in SHOWN
    }
    return Scene(title, {stage: when for stage, when in stages.items() if when})


def draw(file: Path = FILE) -> Sheet:
    """Draw the recorded scenes: a row for each stage, a column for each clock."""
    sheet = Sheet("Stages of the engine in which operations are, clock by clock")
    sheet.text(30, 30, "Operations in the stages of the engine, clock by clock", "title")
    recording = data.load_json(file, WaveRecording)
    every = recording.scenes
    for number, scene in enumerate(every[:-1]):
        _table(sheet, 30 + 310 * number, 66, scene, {})
    depths = {stage: when[0] for stage, when in every[1].stages.items()}
    sheet.height = _table(sheet, 30, 300, every[-1], depths) + 54
    text = "number: operation in the order of its arrival; without: it arrived before the scene"
    sheet.text(30, sheet.height - 34, text, "pale")
    set_up = "RTL in Icarus, default parameters, test_engine_timing::latency_and_interval, seed 1"
    text = f"recorded {recording.date}, commit {recording.commit}; {set_up}"
    sheet.text(30, sheet.height - 14, text, "pale")
    return sheet


def _table(sheet: Sheet, x: float, y: float, scene: Scene, depths: Mapping[str, int]) -> float:
    """Draw a scene and return its lower edge.

    Args:
        sheet: drawing.
        x: left edge.
        y: baseline of the title.
        scene: scene to draw.
        depths: clocks from arrival to each stage, if operations arrived before the scene; else
            empty.
    """
    sheet.text(x, y, scene.title, "head")
    wide, high, left = 36, 22, x + 44
    last = max(max(when) for when in scene.stages.values())
    for clock in range(last + 1):
        sheet.text(left + wide * (clock + 0.5), y + 22, str(clock), "small", "middle")
    top = y + 28
    for row, (stage, when) in enumerate(scene.stages.items()):
        at = top + high * row
        sheet.text(x, at + 16, stage, "pale")
        sheet.line(left, at + high, left + wide * (last + 1), at + high, 'stroke-width="0.3"')
        for order, clock in enumerate(when, when[0] - depths[stage] if depths else 0):
            box = Box(left + wide * clock + 1, at + 2, wide - 2, high - 3)
            known = order >= 0
            sheet.rect(box, TINTS[order % len(TINTS)], f'rx="3" stroke="{INK if known else PALE}"')
            if known:
                sheet.text(box.middle[0], at + 16, str(order + 1), "small", "middle")
    return top + high * len(scene.stages)


if __name__ == "__main__":
    found = tuple(scenes(list(clocks(Path(sys.argv[1])))))
    made = WaveRecording(revision(), moment(time.time())[:10], found)
    data.keep(FILE, made)
    say(f"wrote {FILE.name}")
