# SPDX-License-Identifier: Apache-2.0
"""Texts of what an exchange shows."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest

from cocotbext.cxl.link.flit_event import FlitEvent, Way
from cocotbext.cxl.link.partner import LinkPartner
from cocotbext.cxl.link.tracker import LinkTracker

Lines = Iterator[str]


def show(one: object) -> str:
    """Return a value as text: enums by value, long integers and bytes by a CRC."""
    if isinstance(one, bool | None):
        return str(one)
    if isinstance(one, int):
        return str(int(one)) if abs(one) < 1 << 70 else show(one.to_bytes(80))
    if isinstance(one, bytes):
        return f"{zlib.crc32(one) & 0xFFFF:04x}"
    if isinstance(one, Enum):
        return str(one.value)
    if is_dataclass(one):
        parts = (f"{show(getattr(one, part.name))}" for part in fields(one))
        return f"{type(one).__name__}({','.join(parts)})"
    if isinstance(one, dict):
        parts = (f"{show(key)}:{show(value)}" for key, value in sorted(one.items(), key=str))
        return "{" + " ".join(parts) + "}"
    if isinstance(one, list | tuple):
        return f"[{' '.join(map(show, one))}]"
    return re.sub("[0-9a-f]{64,}", lambda found: show(found[0].encode()), str(one))


def attributes(one: object, names: str) -> str:
    """Return attributes of an object as text."""
    return " ".join(show(getattr(one, name)) for name in names.split())


def of_event(event: FlitEvent) -> str:
    """Return the text of an event of the tracker."""
    head = attributes(event, "cycle direction protocol_id flit kind owed_before number control")
    return f"{head} {'' if event.report is None else show(event.report)}"


def of_link(link: LinkPartner[Any, Any]) -> str:
    """Return the state of a link partner as text."""
    own = "now phy active initialised failed tx_idle unsent unacknowledged num_ack credits counters"
    retry = "lrsm rrsm eseq wrap num_retry num_phy_reinit timeout retrain_request busy"
    return " | ".join(
        (
            attributes(link, own),
            attributes(link.returns, "held initial ready peer"),
            attributes(link.buffer, "wr_ptr rd_ptr free replaying next_is_adf"),
            attributes(link.retry, retry),
            attributes(link.packer, "owed waiting"),
            attributes(link.unpacker, "owed"),
        )
    )


def of_way(way: Way) -> str:
    """Return the state of a direction in the tracker as text."""
    names = "clean_seen param_seen wrap accepted acked cursor frozen uncertain frames since_loss"
    return attributes(way, f"{names} requests asked plain data last")


def of_tracker(tracker: LinkTracker) -> str:
    """Return the state of a tracker as text."""
    rest = attributes(tracker, "outstanding counters idle")
    return f"{of_way(tracker.m2s)} | {of_way(tracker.s2m)} | {rest}"


class New:
    """Reader of lists that grow: each call returns what was added since the last one."""

    def __init__(self, **lists: Callable[[], list[str]]) -> None:
        self._lists, self._seen = lists, dict.fromkeys(lists, 0)

    def __call__(self) -> Lines:
        for name, read in self._lists.items():
            texts, seen = read(), self._seen[name]
            self._seen[name] = len(texts)
            yield from (f"  {name}: {show(text)}" for text in texts[seen:])


def refusal(call: Callable[[], object]) -> str:
    """Return the error that a call raises, as text."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    return f"{caught.type.__name__}: {caught.value}"
