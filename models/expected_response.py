# SPDX-License-Identifier: Apache-2.0
"""Expected response of one message, and its differences from an actual response."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from cocotbext.cxl.wire.messages import S2MDRS, S2MMessage
from models.access_decode import Access, Cause
from models.memory import ALL_BYTES


class Difference(NamedTuple):
    """Wrong field of a response.

    If data differ, ``byte`` is the first wrong byte and ``extent`` the smallest part of the line
    with all wrong bytes (see `extent_of`).
    """

    field: str
    text: str
    byte: int | None = None
    extent: str = ""


def extent_of(first: int, last: int) -> str:
    """Name the smallest part of a line that contains bytes ``first`` to ``last``.

    The names are "one byte", "one element" (4 bytes), "one slot" (16 bytes) and "whole line",
    because their faults have different causes.
    """
    if first == last:
        return "one byte"
    for size, name in ((4, "one element"), (16, "one slot")):
        if first // size == last // size:
            return name
    return "whole line"


@dataclass(frozen=True)
class ExpectedResponse:
    """Expected response to one message, without DevLoad.

    Attributes:
        access: decoding of the message.
        response: None if the message must stay unanswered.
        known_bytes: bit i is 1 if data byte i is determined and so compared.
        poison_known: Poison is determined.
        also: second correct response, to a read of an FP32 sum that the device may have stored
            (KEEP_SUM) or computed again.
    """

    access: Access
    response: S2MMessage | None
    known_bytes: int = ALL_BYTES
    poison_known: bool = True
    also: S2MMessage | None = None

    def differences(self, actual: S2MMessage | None) -> list[Difference]:
        """Return the wrong fields of the response ``actual`` (None: no response); [] if none is."""
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
    """Refused access, as captured in ERR_INFO, ERR_ADDR and ERR_TAG."""

    cause: Cause
    write: bool
    opcode: int
    ldid: int
    addr: int
    tag: int
