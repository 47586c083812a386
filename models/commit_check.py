# SPDX-License-Identifier: Apache-2.0
"""Refusal codes of a commit of a region and of a move of the control window.

Counts are in 64-byte lines. Spec: controller §2, second edition §7, §9, §10.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum

from models.control_window import CONTROL_LINES
from models.modes import Mode
from models.parameters import LINE_ADDRESS_BITS, DeviceParams
from models.regions import MAX_WORKERS, SELECTOR_BITS, RegionConfig, record_lines, state_lines


class CommitCode(IntEnum):
    """Result code of a commit, as in the region's STATUS register.

    The lowest failing code is reported; of a reserved mode nothing else is checked.
    """

    OK = 0
    WORKERS = 1
    THRESHOLD = 2
    LINES = 3
    BASE_ALIGN = 4
    WINDOW_MEMORY = 5
    WINDOW_OVERLAP = 6
    STATE_ALIGN = 7
    STATE_MEMORY = 8
    STATE_OVERLAP = 9
    MODE = 10
    PLANES = 11


def _overlap(start_a: int, size_a: int, start_b: int, size_b: int) -> bool:
    return start_a < start_b + size_b and start_b < start_a + size_a


def _window(config: RegionConfig) -> tuple[int, int]:
    return config.base_line, config.window_lines


def check_commit(
    params: DeviceParams,
    config: RegionConfig,
    others: Sequence[RegionConfig],
    control_line: int = 0,
) -> CommitCode:
    """Return the result code of a commit of ``config``: OK or the first rule that it breaks.

    The arguments are those of `broken_rules`.
    """
    return next(broken_rules(params, config, others, control_line), CommitCode.OK)


def broken_rules(
    params: DeviceParams,
    config: RegionConfig,
    others: Sequence[RegionConfig],
    control_line: int = 0,
) -> Iterator[CommitCode]:
    """Yield the rules that ``config`` breaks, in the order in which a commit judges them.

    Args:
        params: device parameters.
        config: descriptor to commit.
        others: descriptors of the other committed regions.
        control_line: first line of the control window; 0 if there is none.
    """
    if config.mode.reserved or (config.mode.optional and not params.tern5):
        yield CommitCode.MODE
    if not 1 <= config.workers <= MAX_WORKERS:
        yield CommitCode.WORKERS
    if config.threshold == 0:
        yield CommitCode.THRESHOLD
    if config.lines_log2 + SELECTOR_BITS > LINE_ADDRESS_BITS:
        yield CommitCode.LINES
    windows = [_window(other) for other in others]
    if control_line:
        windows.append((control_line, CONTROL_LINES))
    yield from _window_rules(params, *_window(config), windows)
    yield from _state_rules(params, config, others)
    if config.mode.exact and config.most > params.cnt_max:
        yield CommitCode.PLANES


def most_workers(mode: Mode, params: DeviceParams) -> int:
    """Return the highest W that a commit accepts in a mode: exact sums must fit the counters."""
    return min(MAX_WORKERS, params.cnt_max // mode.counts_to(1)) if mode.exact else MAX_WORKERS


def _window_rules(
    params: DeviceParams, line: int, size: int, taken: Iterable[tuple[int, int]]
) -> Iterator[CommitCode]:
    """Yield the rules that a window breaks, in the order of the codes.

    Args:
        params: device parameters.
        line: first line of the window.
        size: lines of the window.
        taken: (first line, lines) of the other windows.
    """
    if line % size:
        yield CommitCode.BASE_ALIGN
    if line < params.mem_lines:
        yield CommitCode.WINDOW_MEMORY
    if any(_overlap(line, size, *window) for window in taken):
        yield CommitCode.WINDOW_OVERLAP


def _state_rules(
    params: DeviceParams, config: RegionConfig, others: Sequence[RegionConfig]
) -> Iterator[CommitCode]:
    """Yield the rules that a region's state area breaks, in the order of the codes."""
    if config.mode.low_bit and config.state_line % record_lines(config.most, params.cnt_w):
        yield CommitCode.STATE_ALIGN
    size = state_lines(config, params.cnt_w)
    if config.state_line + size > params.mem_lines:
        yield CommitCode.STATE_MEMORY
    areas = [(other.state_line, state_lines(other, params.cnt_w)) for other in others]
    if any(_overlap(config.state_line, size, *area) for area in areas):
        yield CommitCode.STATE_OVERLAP


def check_move(params: DeviceParams, place: int, regions: Sequence[RegionConfig]) -> CommitCode:
    """Return the result code of moving the control window to byte address ``place`` (0: off)."""
    if place >> 6 == 0:
        return CommitCode.OK
    rules = _window_rules(params, place >> 6, CONTROL_LINES, map(_window, regions))
    return next(rules, CommitCode.OK)
