# SPDX-License-Identifier: Apache-2.0
"""Pairing of responses with requests: by (tag, LD-ID) within NDR and DRS (spec: link spec §5)."""

from __future__ import annotations

from collections.abc import Collection

from cocotbext.cxl.wire.describe import describe_message
from cocotbext.cxl.wire.messages import S2MDRS, S2MMessage

Key = tuple[bool, int, int]
"""True for DRS, False for NDR; tag; LD-ID."""


def key_of(message: S2MMessage) -> Key:
    """Return the key (is DRS, tag, LD-ID) of the request that a response answers."""
    return isinstance(message, S2MDRS), message.tag, message.ldid


def channel(is_drs: bool) -> str:
    """Return the name of the channel of a response."""
    return "DRS" if is_drs else "NDR"


def stray(message: S2MMessage, owed: Collection[Key]) -> str:
    """Return why a response matches none of the requests that are owed one, with the response.

    The reason is the wrong channel (NDR or DRS), the wrong LD-ID, or a tag that no request has.
    """
    is_drs, tag, ldid = key_of(message)
    if (not is_drs, tag, ldid) in owed:
        why = f"{channel(is_drs)} in place of the {channel(not is_drs)} that is owed"
    elif others := sorted(key[2] for key in owed if key[:2] == (is_drs, tag)):
        why = f"wrong LD-ID: {ldid}, where LD-ID {others[0]} is owed this response"
    else:
        why = "wrong tag, or a second response: nobody waits for it"
    return f"{why}: {describe_message(message)}"
