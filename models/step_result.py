# SPDX-License-Identifier: Apache-2.0
"""Expected response of one message, and how an actual response differs from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from cocotbext.cxl.wire.messages import S2MDRS, S2MMessage
from models.memory import ALL_BYTES
from models.regions import Access, Cause


class Difference(NamedTuple):
    """A wrong field of an answer; ``byte`` is the first wrong byte where the data differ, and
    ``extent`` what holds all of them (see `extent_of`)."""

    field: str
    text: str
    byte: int | None = None
    extent: str = ""


def extent_of(first: int, last: int) -> str:
    """The smallest part of a line that holds two bytes and all between them: faults of a byte lane,
    of an element, of a slot of a flit and of a whole line are different faults."""
    if first == last:
        return "one byte"
    for size, name in ((4, "one element"), (16, "one slot")):
        if first // size == last // size:
            return name
    return "whole line"


@dataclass(frozen=True)
class StepResult:
    """Expected answer of one message.

    ``response`` is None when the message must stay unanswered. ``known_bytes`` has a bit per data
    byte that is determined, ``poison_known`` says the same of Poison; both are full except in
    memory whose content no specification fixes. DevLoad is not part of the expectation. ``also`` is
    a second answer that is as right: of a sum that the device may have kept, or gathered again.
    """

    access: Access
    response: S2MMessage | None
    known_bytes: int = ALL_BYTES
    poison_known: bool = True
    also: S2MMessage | None = None

    def differences(self, actual: S2MMessage | None) -> list[Difference]:
        """The fields of ``actual`` that are wrong; empty when it is as expected."""
        if self.also is not None and not replace(self, response=self.also, also=None).differences(
            actual
        ):
            return []
        want = self.response
        if want is None or actual is None:
            if want is actual:
                return []
            if want is None:
                return [Difference("answer", f"answered by {actual}, expected no answer")]
            return [Difference("answer", "not answered")]
        if type(want) is not type(actual):
            text = f"answered by {type(actual).__name__}, expected {type(want).__name__}"
            return [Difference("answer", text)]
        out = [
            Difference(
                name,
                f"{name}: got {int(getattr(actual, name)):#x}, "
                f"expected {int(getattr(want, name)):#x}",
            )
            for name in ("opcode", "tag", "ldid", "meta_field", "meta_value")
            if getattr(actual, name) != getattr(want, name)
        ]
        if isinstance(want, S2MDRS) and isinstance(actual, S2MDRS):
            if self.poison_known and actual.poison != want.poison:
                text = f"Poison: got {int(actual.poison)}, expected {int(want.poison)}"
                out.append(Difference("Poison", text))
            out.extend(self._data_differences(want.data, actual.data))
        return out

    def _data_differences(self, want: bytes, actual: bytes) -> list[Difference]:
        if len(actual) != len(want):
            text = f"got {len(actual)} bytes of data, expected {len(want)}"
            return [Difference("data", text, 0)]
        if actual == want:
            return []
        bad = [i for i in range(len(want)) if self.known_bytes >> i & 1 and actual[i] != want[i]]
        if not bad:
            return []
        first = bad[0]
        text = (
            f"{len(bad)} data bytes differ, the first is byte {first}: "
            f"got {actual[first]:02x}, expected {want[first]:02x}"
        )
        return [Difference("data", text, first, extent_of(first, bad[-1]))]


@dataclass(frozen=True)
class AccessError:
    """A refused access as ERR_INFO, ERR_ADDR and ERR_TAG would capture it."""

    cause: Cause
    write: bool
    opcode: int
    ldid: int
    addr: int
    tag: int


@dataclass(frozen=True)
class RegionStatus:
    """A region's status registers that do not depend on micro-architecture."""

    committed: bool
    code: int
    epoch: int
    done: bool
    complete_lines: int
    saturated: bool
    illegal_seen: bool
    closed: bool
