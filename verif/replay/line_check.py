# SPDX-License-Identifier: Apache-2.0
"""Comparison of returned lines with the reducers, and of counters with the traffic; texts of
faults.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.fp32 import ordered_sum
from models.int_sums import reduce_int, sum8_lines
from models.line_packing import LINE_BYTES, U8, lines_to_codes, unpack_binary, unpack_int
from models.modes import Mode, Tie, elements_per_line
from models.parameters import DeviceParams
from models.regions import planes_kept
from models.register_map import REG_MAP
from models.register_types import Counts
from models.votes import planes_to_counts, reduce_binary, reduce_ternary
from neuron_fabric import codec
from verif.replay.epoch import EpochLines
from verif.replay.plan import Lines, RegionUse

SHOWN_WORKERS = 8
COST = ("SLOT_HIT", "SLOT_MISS", "EVICTION", "RX_FLIT", "TX_FLIT")
"""Counters of cost."""
ZERO = tuple(
    name
    for name in REG_MAP.counters(Counts.ACCESS, Counts.LINK)
    if name not in ("CONTRIBUTION", *COST, "MEM_POISON")  # answers carry poison
)
"""Counters that must stay 0: every request of a replay is legal, unique and undamaged."""
COUNTERS = (*ZERO, "CONTRIBUTION", *COST)


# -- lines --------------------------------------------------------------------------------------
def expected_lines(
    sent: U8,
    use: RegionUse,
    device: DeviceParams,
    present: NDArray[np.bool_] | None = None,
) -> Lines:
    """Return the lines that a region must return for contributions uint8[W, n, 64].

    Votes are counted by the codec, which is fast enough for millions of lines and equal to the
    reducers (`models/test_codec_law.py`); cases that it does not support (saturated counts, another
    tie rule or threshold) by the reducers.

    Args:
        sent: Contributions.
        use: Region and selectors.
        device: Parameters of the device.
        present: bool[W, n], the contributors of each line; None: all workers.
    """
    config, kept = use.config, planes_kept(len(sent), device.cnt_w)
    if config.mode == Mode.FP32:
        return Lines(use.selectors, ordered_sum(sent, present)[None])
    if config.mode.bits:
        codes = reduce_int(sent, config.mode, present, config.signed)
        views = [codes.planes[:kept], codes.sum16]
        if sum8_lines(config.mode, config.workers):
            views.append(codes.sum8)
        return Lines(use.selectors, np.concatenate(views))
    if len(sent) <= device.cnt_max and not config.tie_minus and config.threshold == 1:
        vote, planes = codec.count(sent, codec.Route(config.mode.name), present=present)
    elif config.mode == Mode.G_BINARY:
        tie = Tie.MINUS if config.tie_minus else Tie.PLUS
        low = reduce_binary(sent, present, tie, device.cnt_max)
        vote, planes = low.vote, low.planes[:kept]
    else:
        low = reduce_ternary(sent, present, config.threshold, device.cnt_max)
        vote, planes = low.vote, low.planes[:kept]
    # Sums of codes are read from the count planes alone.
    return Lines(use.selectors, planes) if use.route.bits else Lines.of(vote, planes)


@dataclass(frozen=True)
class Mismatch:
    """First wrong line of an epoch.

    Attributes:
        work: The epoch.
        use: Index of the use of a region in `work.uses`.
        line: Index of the line in the region.
        text: Description of the first wrong element.
    """

    work: EpochLines
    use: int
    line: int
    text: str


@dataclass(frozen=True)
class Verdict:
    """Result of the comparison of an epoch.

    Attributes:
        lines: Number of lines per worker that were compared.
        wrong: Number of them that differ.
        first: First difference, or None.
    """

    lines: int
    wrong: int
    first: Mismatch | None = None


def judge(work: EpochLines) -> Verdict:
    """Compare every returned line of an epoch with the expected one."""
    wrong, first = 0, None
    for number, (use, sent, got) in enumerate(zip(work.uses, work.sent, work.got)):
        want = expected_lines(sent, use, work.plan.params)
        differs = got.differ(want)
        wrong += int(differs.sum())
        if first is None and differs.any():
            line = int(np.flatnonzero(differs)[0])
            text = describe(work.step, use, sent, got, want, line)
            first = Mismatch(work, number, line, text)
    return Verdict(work.lines, wrong, first)


def describe(step: int, use: RegionUse, sent: U8, got: Lines, want: Lines, line: int) -> str:
    """Return a text on a wrong line: tensor, line, element, returned and expected value,
    contributions.

    Args:
        step: Training step.
        use: Use of the region.
        sent: Contributions to the region, uint8[W, n, 64].
        got: Returned lines.
        want: Expected lines.
        line: Index of the line in the region; the text gives the index in the tensor.
    """
    mode, at = use.route, line
    for extent in use.extents:
        if at < extent.lines:
            break
        at -= extent.lines
    spec, own_line = extent.tensor, extent.first + at
    what, element, values = first_value(mode, got, want, line)
    flat = own_line * elements_per_line(mode) + element
    if flat < spec.elements:
        index = [int(i) for i in np.unravel_index(flat, spec.shape)] if spec.shape else []
        place = f"element {element} (index {index})"
    else:
        place = f"element {element} (padding)"
    codes = [_values(mode, one[line].reshape(1, LINE_BYTES))[element] for one in sent]
    workers = [f"{worker}: {code}" for worker, code in enumerate(codes)]
    more = ", ..." if len(workers) > SHOWN_WORKERS else ""
    return (
        f"step {step} tensor {spec.name} {mode.name} line {own_line} {place}: {what} is "
        f"{values[0]}, the reducers say {values[1]}; workers sent "
        f"{', '.join(workers[:SHOWN_WORKERS])}{more}"
    )


def first_value(route: Mode, got: Lines, want: Lines, line: int) -> tuple[str, int, list[str]]:
    """Return the first element of a line that differs, in the first view that differs.

    Args:
        route: Route of the tensor.
        got: Returned lines.
        want: Expected lines.
        line: Index of the line in the region.

    Returns:
        Name of the view, number of the element, and [returned, expected] as texts.
    """
    views = zip(_views(route, got, line), _views(route, want, line), strict=True)
    for (what, mine), (_, right) in views:
        for element, values in enumerate(zip(mine, right, strict=True)):
            if values[0] != values[1]:
                return what, element, [*values]
    raise AssertionError("the lines are equal")


_COUNTS = {
    Mode.G_BINARY: ["count of non-negative"],
    Mode.G_TERNARY: ["count of +1", "count of -1"],
}


def _views(route: Mode, lines: Lines, line: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each view of a line that was read: its name, and every element as text."""
    if not route.bits:
        yield "sum" if route == Mode.FP32 else "vote", _values(route, lines.result[line])
    names = _COUNTS.get(route) or [f"count of bit {bit}" for bit in range(route.bits)]
    counts = [str(n) for n in planes_to_counts(lines.planes[:, line : line + 1])[0].tolist()]
    for number, name in enumerate(names):
        yield name, counts[number :: len(names)]
    for name, view, kind in (("SUM16", lines.sum16, "<i2"), ("SUM8", lines.sum8, "<i1")):
        yield f"sum by {name}", [str(n) for n in view[:, line].reshape(-1).view(kind).tolist()]


def _values(mode: Mode, line: U8) -> list[str]:
    """Return every element of a line as text that identifies it exactly."""
    if mode == Mode.G_BINARY:
        return ["+1" if value > 0 else "-1" for value in unpack_binary(line)]
    if mode == Mode.G_TERNARY:
        return [("0", "illegal 01", "+1", "-1")[code] for code in lines_to_codes(line)]
    if mode.bits:
        return [str(code) for code in unpack_int(line, mode).reshape(-1)]
    words = np.frombuffer(line.tobytes(), dtype="<u4")
    with np.errstate(all="ignore"):
        return [f"{word:08X}h ({value:.9g})" for word, value in zip(words, words.view("<f4"))]


# -- registers ----------------------------------------------------------------------------------
def region_problems(uses: Sequence[RegionUse], complete: Sequence[int], done: int) -> list[str]:
    """Check COMPLETE_LINES and DONE of each region, once every contribution has been answered.

    Args:
        uses: Uses of regions in the epoch.
        complete: COMPLETE_LINES of each.
        done: Register DONE.

    Returns:
        Texts of the faults, one each.
    """
    out = []
    for use, lines in zip(uses, complete, strict=True):
        if lines != use.lines:
            out.append(f"region {use.region}: {lines} of {use.lines} lines complete")
        finished = done >> use.region & 1
        if finished != (use.lines == use.config.lines):
            out.append(f"region {use.region}: DONE is {finished} with {lines} complete lines")
    return out


def counter_problems(counted: Mapping[str, int], writes: int) -> list[str]:
    """Check the counters of COUNTERS against ``writes`` legal contributions; return texts of
    errors.

    Args:
        counted: Increase by name of the counter.
        writes: Number of contributions.
    """
    out = [f"counter {name} went up by {counted[name]}" for name in ZERO if counted[name]]
    if counted["CONTRIBUTION"] != writes:
        out.append(
            f"counter CONTRIBUTION went up by {counted['CONTRIBUTION']}, {writes} lines were "
            "written"
        )
    return out
