# SPDX-License-Identifier: Apache-2.0
"""Control flits of the link layer (spec: link spec §7): encode, decode, static bits.

One frozen dataclass a kind; ``encode_control`` gives the 512-bit payload, ``decode_control`` the
object and the texts of every static bit that is not 0. Credits in Llcrd are raw nibbles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Llcrd:
    """Returns ``ack`` (0..255) retry buffer entries and credits."""

    ack: int = 0
    rsp_crd: int = 0
    req_crd: int = 0
    data_crd: int = 0


@dataclass(frozen=True, slots=True)
class RetryIdle:
    """Nothing to say."""


@dataclass(frozen=True, slots=True)
class RetryReq:
    """Asks for a replay from ``eseq``."""

    eseq: int
    num_retry: int = 0
    num_phy_reinit: int = 0


@dataclass(frozen=True, slots=True)
class RetryAck:
    """Answers a RetryReq: the replay follows, unless ``empty``."""

    empty: bool = False
    viral: bool = False
    num_retry: int = 0
    wr_ptr: int = 0
    eseq: int = 0
    num_free_buf: int = 0


@dataclass(frozen=True, slots=True)
class RetryFrame:
    """Five of them stand before a RetryReq or a RetryAck."""


@dataclass(frozen=True, slots=True)
class InitParam:
    """First non-RETRY flit: version 2 and the wrap value of the sender's retry buffer."""

    wrap: int
    version: int = 2


@dataclass(frozen=True, slots=True)
class UnknownControl:
    """A combination of LLCTRL and SubType that the link spec does not have."""

    llctrl: int
    subtype: int


ControlFlit = Llcrd | RetryIdle | RetryReq | RetryAck | RetryFrame | InitParam | UnknownControl

_LLCRD, _RETRY, _INIT = 0, 1, 0xC
_CODE_BITS: Final = 1 | 0xFF << 32
# Every bit that may be 1, by (LLCTRL, SubType).
_LIVE_BITS: Final = {
    (_LLCRD, 1): _CODE_BITS | 1 << 2 | 0xFFF << 20 | 0xF7 << 64,
    (_RETRY, 0): _CODE_BITS,
    (_RETRY, 1): _CODE_BITS | 0xFF << 64 | 0x3FF << 80,
    (_RETRY, 2): _CODE_BITS | 0xFFFF_FFFB << 64,
    (_RETRY, 3): _CODE_BITS,
    (_INIT, 8): _CODE_BITS | 0xFF00_000F << 64,
}


def _word(llctrl: int, subtype: int, payload: int = 0, header: int = 0) -> int:
    return 1 | header | llctrl << 32 | subtype << 36 | payload << 64


def _fits(**fields: tuple[int, int]) -> None:
    for name, (value, bits) in fields.items():
        if value < 0 or value >> bits:
            raise ValueError(f"{name} = {value} does not fit in {bits} bits")


def encode_control(flit: ControlFlit) -> int:
    """The 512-bit payload. ValueError: a field does not fit."""
    match flit:
        case Llcrd(ack, rsp, req, data):
            _fits(ack=(ack, 8), rsp_crd=(rsp, 4), req_crd=(req, 4), data_crd=(data, 4))
            # Full_Ack = {Ack[7:4], Ak, Ack[2:0]}: bit 3 of the count travels in the header.
            header = (ack >> 3 & 1) << 2 | rsp << 20 | req << 24 | data << 28
            return _word(_LLCRD, 1, ack & 0xF7, header)
        case RetryIdle():
            return _word(_RETRY, 0)
        case RetryReq(eseq, num_retry, num_phy):
            _fits(eseq=(eseq, 8), num_retry=(num_retry, 5), num_phy_reinit=(num_phy, 5))
            return _word(_RETRY, 1, eseq | num_retry << 16 | num_phy << 21)
        case RetryAck(empty, viral, num_retry, wr_ptr, eseq, free):
            _fits(num_retry=(num_retry, 5), wr_ptr=(wr_ptr, 8), eseq=(eseq, 8), free=(free, 8))
            low = empty | viral << 1 | num_retry << 3
            return _word(_RETRY, 2, low | wr_ptr << 8 | eseq << 16 | free << 24)
        case RetryFrame():
            return _word(_RETRY, 3)
        case InitParam(wrap, version):
            _fits(wrap=(wrap, 8), version=(version, 4))
            return _word(_INIT, 8, version | wrap << 24)
        case UnknownControl(llctrl, subtype):
            _fits(llctrl=(llctrl, 4), subtype=(subtype, 4))
            return _word(llctrl, subtype)


def decode_control(payload: int) -> tuple[ControlFlit, list[str]]:
    """The control flit and what is wrong with its static bits (Type = 1 is taken for granted)."""
    kind = (payload >> 32 & 15, payload >> 36 & 15)
    live = _LIVE_BITS.get(kind)
    if live is None:
        return UnknownControl(*kind), [f"LLCTRL {kind[0]:X}h SubType {kind[1]:X}h is reserved"]
    wrong = payload & ~live
    issues = [f"static bit {_lowest(wrong)} of a control flit is 1"] if wrong else []
    body = payload >> 64 & 0xFFFF_FFFF
    flit: ControlFlit
    match kind:
        case (0, 1):
            ack = body & 0xF7 | (payload >> 2 & 1) << 3
            flit = Llcrd(ack, payload >> 20 & 15, payload >> 24 & 15, payload >> 28 & 15)
        case (1, 0):
            flit = RetryIdle()
        case (1, 1):
            flit = RetryReq(body & 0xFF, body >> 16 & 31, body >> 21 & 31)
        case (1, 2):
            low = (bool(body & 1), bool(body >> 1 & 1), body >> 3 & 31)
            flit = RetryAck(*low, body >> 8 & 0xFF, body >> 16 & 0xFF, body >> 24)
        case (1, 3):
            flit = RetryFrame()
        case _:
            flit = InitParam(body >> 24, body & 15)
            if flit.version != 2:
                issues.append(f"INIT.Param of version {flit.version}")
    return flit, issues


def _lowest(value: int) -> int:
    return (value & -value).bit_length() - 1


def is_retryable(flit: ControlFlit) -> bool:
    """Goes through the retry buffer and is acknowledged."""
    return isinstance(flit, Llcrd | InitParam)
