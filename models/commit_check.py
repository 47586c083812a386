# SPDX-License-Identifier: Apache-2.0
"""Refusal codes of a commit of a region and of a move of the control window.

Counts are in 64-byte lines. Spec: controller §2, second edition §7, §9, §10.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

    Args:
        params: device parameters.
        config: descriptor to commit.
        others: descriptors of the other committed regions.
        control_line: first line of the control window; 0 if there is none.
    """
    if config.mode.reserved or (config.mode.optional and not params.tern5):
        return CommitCode.MODE
    if not 1 <= config.workers <= MAX_WORKERS:
        return CommitCode.WORKERS
    if config.threshold == 0:
        return CommitCode.THRESHOLD
    if config.lines_log2 + SELECTOR_BITS > LINE_ADDRESS_BITS:
        return CommitCode.LINES
    windows = [_window(other) for other in others]
    if control_line:
        windows.append((control_line, CONTROL_LINES))
    code = _check_window(params, *_window(config), windows)
    if code is CommitCode.OK:
        code = _check_state(params, config, others)
    if code is CommitCode.OK and config.mode.exact and config.most > params.cnt_max:
        code = CommitCode.PLANES
    return code


def most_workers(mode: Mode, params: DeviceParams) -> int:
    """Return the highest W that a commit accepts in a mode: exact sums must fit the counters."""
    return min(MAX_WORKERS, params.cnt_max // mode.counts_to(1)) if mode.exact else MAX_WORKERS


def _check_window(
    params: DeviceParams, line: int, size: int, taken: Iterable[tuple[int, int]]
) -> CommitCode:
    """Return the first rule that a window breaks, in the order of the codes, or OK.

    Args:
        params: device parameters.
        line: first line of the window.
        size: lines of the window.
        taken: (first line, lines) of the other windows.
    """
    if line % size:
        return CommitCode.BASE_ALIGN
    if line < params.mem_lines:
        return CommitCode.WINDOW_MEMORY
    if any(_overlap(line, size, *window) for window in taken):
        return CommitCode.WINDOW_OVERLAP
    return CommitCode.OK


def _check_state(
    params: DeviceParams, config: RegionConfig, others: Sequence[RegionConfig]
) -> CommitCode:
    """Return the first rule that a region's state area breaks, in the order of the codes, or OK."""
    if config.mode.low_bit and config.state_line % record_lines(config.most, params.cnt_w):
        return CommitCode.STATE_ALIGN
    size = state_lines(config, params.cnt_w)
    if config.state_line + size > params.mem_lines:
        return CommitCode.STATE_MEMORY
    areas = [(other.state_line, state_lines(other, params.cnt_w)) for other in others]
    if any(_overlap(config.state_line, size, *area) for area in areas):
        return CommitCode.STATE_OVERLAP
    return CommitCode.OK


def check_move(params: DeviceParams, place: int, regions: Sequence[RegionConfig]) -> CommitCode:
    """Return the result code of moving the control window to byte address ``place`` (0: off)."""
    if place >> 6 == 0:
        return CommitCode.OK
    return _check_window(params, place >> 6, CONTROL_LINES, map(_window, regions))
