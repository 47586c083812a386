# SPDX-License-Identifier: Apache-2.0
"""Selection of steps, ranks and layers to capture, from the command line or the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from neuron_fabric.capture.layout import MAX_STEP, TensorSpec
from neuron_fabric.errors import CaptureError

FOLDER = "NF_CAPTURE_DIR"
STEPS = "NF_CAPTURE_STEPS"
RANKS = "NF_CAPTURE_RANKS"
LAYERS = "NF_CAPTURE_LAYERS"

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


def parse_numbers(text: str, what: str) -> tuple[range, ...]:
    """Parse ``3,60``, ``0-100`` or ``0-1000:50`` (every 50th); an empty text means all.

    Args:
        text: The numbers.
        what: Description of the numbers in an error.

    Raises:
        CaptureError: The text is wrong.
    """
    ranges = []
    for part in [p.strip() for p in text.split(",")] if text.strip() else []:
        match = _RANGE.fullmatch(part)
        if match is None:
            todo = "write 3,60 or 0-100 or 0-1000:50"
            raise CaptureError(f"{what} {part!r}", "not understood", todo)
        first, last, stride = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if not first <= last <= MAX_STEP or stride == 0:
            raise CaptureError(f"{what} {part!r}", "no such range", f"0 to {MAX_STEP}, upwards")
        ranges.append(range(first, last + 1, stride))
    return tuple(ranges)


def selects(ranges: Sequence[range], number: int) -> bool:
    """Return whether a number is in one of the ranges, or there are no ranges."""
    return not ranges or any(number in one for one in ranges)


@dataclass(frozen=True)
class Selection:
    """Steps, ranks and layers (globs of parameter names) to capture; empty means all."""

    steps: tuple[range, ...] = ()
    ranks: tuple[range, ...] = ()
    layers: tuple[str, ...] = ()

    @staticmethod
    def parse(steps: str = "", ranks: str = "", layers: str | Sequence[str] = ()) -> Selection:
        """Parse the texts of a selection.

        Args:
            steps: See `parse_numbers`.
            ranks: See `parse_numbers`.
            layers: Globs of parameter names, a list or one text separated by commas.

        Raises:
            CaptureError: A text is wrong.
        """
        parts = layers.split(",") if isinstance(layers, str) else layers
        return Selection(
            parse_numbers(steps, "steps"),
            parse_numbers(ranks, "ranks"),
            tuple(part.strip() for part in parts if part.strip()),
        )

    @staticmethod
    def from_environment(env: Mapping[str, str]) -> Selection:
        """Return the selection in NF_CAPTURE_STEPS, NF_CAPTURE_RANKS and NF_CAPTURE_LAYERS.

        An unset variable selects all.
        """
        return Selection.parse(env.get(STEPS, ""), env.get(RANKS, ""), env.get(LAYERS, ""))

    def workers(self, world_size: int) -> list[int]:
        """Return the selected ranks in order; the n-th of them is worker n of the capture.

        Raises:
            CaptureError: A selected rank does not exist.
        """
        for one in self.ranks:
            if one[-1] >= world_size:
                what = f"there are {world_size} ranks"
                raise CaptureError(f"rank {one[-1]}", what, "choose among them")
        return [rank for rank in range(world_size) if selects(self.ranks, rank)]

    def tensors(self, all_tensors: Sequence[TensorSpec]) -> list[TensorSpec]:
        """Return the selected tensors in the order of the model.

        Raises:
            CaptureError: A glob matches no tensor; it is misspelled, and its layer would be
                missing.
        """
        for glob in self.layers:
            if not any(fnmatchcase(spec.name, glob) for spec in all_tensors):
                like = f"the names are like {all_tensors[0].name!r}" if all_tensors else "none here"
                raise CaptureError(f"layer {glob!r}", "matches no parameter", like)
        return [
            spec
            for spec in all_tensors
            if not self.layers or any(fnmatchcase(spec.name, glob) for glob in self.layers)
        ]
