# SPDX-License-Identifier: Apache-2.0
"""Control flits of the link layer (spec: link spec §7): encode, decode, static bits.

There is one frozen dataclass per kind. ``encode_control`` returns the 512-bit payload,
``decode_control`` the object and a text for every static bit that is not 0. Credits in Llcrd are
raw nibbles.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from cocotbext.cxl.wire.messages import FLAG, Fields

_BYTE, _COUNT, _NIBBLE = range(256), range(32), range(16)


@dataclass(frozen=True, slots=True)
class _Control:
    CODE: ClassVar[tuple[int, int]]
    """LLCTRL and SubType."""
    FIELDS: ClassVar[Fields] = Fields()


@dataclass(frozen=True, slots=True)
class Llcrd(_Control):
    """LLCRD: returns ``ack`` (0..255) retry buffer entries, and credits."""

    CODE = 0, 1
    FIELDS = Fields(
        ack=(64, _BYTE), rsp_crd=(20, _NIBBLE), req_crd=(24, _NIBBLE), data_crd=(28, _NIBBLE)
    )
    ack: int = 0
    rsp_crd: int = 0
    req_crd: int = 0
    data_crd: int = 0


@dataclass(frozen=True, slots=True)
class RetryIdle(_Control):
    """RETRY.Idle: carries no information."""

    CODE = 1, 0


@dataclass(frozen=True, slots=True)
class RetryReq(_Control):
    """RETRY.Req: requests a replay from ``eseq``."""

    CODE = 1, 1
    FIELDS = Fields(eseq=(64, _BYTE), num_retry=(80, _COUNT), num_phy_reinit=(85, _COUNT))
    eseq: int
    num_retry: int = 0
    num_phy_reinit: int = 0


@dataclass(frozen=True, slots=True)
class RetryAck(_Control):
    """RETRY.Ack: answers a RETRY.Req; the replay follows, unless ``empty``."""

    CODE = 1, 2
    FIELDS = Fields(
        empty=(64, FLAG),
        viral=(65, FLAG),
        num_retry=(67, _COUNT),
        wr_ptr=(72, _BYTE),
        eseq=(80, _BYTE),
        num_free_buf=(88, _BYTE),
    )
    empty: bool = False
    viral: bool = False
    num_retry: int = 0
    wr_ptr: int = 0
    eseq: int = 0
    num_free_buf: int = 0


@dataclass(frozen=True, slots=True)
class RetryFrame(_Control):
    """RETRY.Frame: five of them precede a RETRY.Req or a RETRY.Ack."""

    CODE = 1, 3


@dataclass(frozen=True, slots=True)
class InitParam(_Control):
    """INIT.Param: first control flit of a side other than RETRY flits.

    It carries version 2 and the wrap value of the sender's retry buffer.
    """

    CODE = 0xC, 8
    FIELDS = Fields(version=(64, _NIBBLE), wrap=(88, _BYTE))
    wrap: int
    version: int = 2


@dataclass(frozen=True, slots=True)
class UnknownControl:
    """Combination of LLCTRL and SubType that the link spec does not define."""

    llctrl: int
    subtype: int


ControlFlit = Llcrd | RetryIdle | RetryReq | RetryAck | RetryFrame | InitParam | UnknownControl

_KINDS: Final = {
    kind.CODE: kind for kind in (Llcrd, RetryIdle, RetryReq, RetryAck, RetryFrame, InitParam)
}
_CODE: Final = Fields(llctrl=(32, _NIBBLE), subtype=(36, _NIBBLE))


def _full_ack(payload: int) -> int:
    """Convert an 8-bit Ack field to Full_Ack = {Ack[7:4], Ak, Ack[2:0]}, and back (own inverse).

    This swaps payload bits 2 (Ak) and 67 (Ack[3]).
    """
    header, body = payload >> 2 & 1, payload >> 67 & 1
    return payload & ~(1 << 2 | 1 << 67) | header << 67 | body << 2


def encode_control(flit: ControlFlit) -> int:
    """Return the 512-bit payload of a control flit. Raise ValueError if a field does not fit."""
    if isinstance(flit, UnknownControl):
        return 1 | _CODE.pack(flit)
    payload = 1 | _CODE.pack(UnknownControl(*flit.CODE)) | flit.FIELDS.pack(flit)
    return _full_ack(payload) if isinstance(flit, Llcrd) else payload


def decode_control(payload: int) -> tuple[ControlFlit, list[str]]:
    """Return the control flit of a 512-bit payload, and a text for each violation in it.

    Violations are static bits that are 1, a reserved code and a version of INIT.Param other than 2.
    The Type bit is not checked.
    """
    code = payload >> 32 & 15, payload >> 36 & 15
    if code not in _KINDS:
        return UnknownControl(*code), [f"LLCTRL {code[0]:X}h SubType {code[1]:X}h is reserved"]
    kind = _KINDS[code]
    live, word = 1 | _CODE.live | kind.FIELDS.live, payload
    if kind is Llcrd:
        live, word = _full_ack(live), _full_ack(payload)
    wrong = payload & ~live
    issues = [f"static bit {_lowest(wrong)} of a control flit is 1"] if wrong else []
    flit = kind(**kind.FIELDS.unpack(word))
    if isinstance(flit, InitParam) and flit.version != 2:
        issues.append(f"INIT.Param of version {flit.version}")
    return flit, issues


def _lowest(value: int) -> int:
    return (value & -value).bit_length() - 1


def is_retryable(flit: ControlFlit) -> bool:
    """Return True for LLCRD and INIT.Param, which pass the retry buffer and are acknowledged."""
    return isinstance(flit, Llcrd | InitParam)
