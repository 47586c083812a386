# SPDX-License-Identifier: Apache-2.0
"""Functional coverage as UCIS XML (Accellera UCIS 1.0, chapter 9), for tools that merge it.

A point is a coverpoint of one covergroup, its floor `at_least`, its reason the comment; a waived
bin is an ignored one with its reason as alias. A cross is a coverpoint too: its bins are named by
their axis values, which a merge compares. The written part of the format is in
`scripts/schema/ucis.xsd`.
"""

from __future__ import annotations

import datetime
import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from scripts.common.records import TOP
from scripts.report.functional import Bin, Functional
from scripts.report.invocation import Invocation

VERSION = "1.0"
SOURCE = "verif/coverage/cover_points.py"
_PLACE = {"file": "1", "line": "1", "inlineCount": "1"}  # UCIS wants one of everything
# Characters that XML 1.0 cannot contain, not even escaped; an unplanned bin may contain them.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(found: Functional, invocation: Invocation) -> str:
    """Return the document."""
    started = _moment(invocation.started)
    written = {"ucisVersion": VERSION, "writtenBy": "nf", "writtenTime": started}
    root = Element("UCIS", written)
    SubElement(root, "sourceFiles", fileName=SOURCE, id="1")
    history = {
        "historyNodeId": "0",
        "logicalName": _clean(invocation.title),
        "kind": "TEST",
        "testStatus": "true",  # runs that failed cover nothing
        "date": started,
        "toolCategory": "functional",
        "ucisVersion": VERSION,
        "vendorId": "NEURON-Fabric",
        "vendorTool": "nf",
        "vendorToolVersion": invocation.revision or "unknown",
        "sameTests": str(found.runs),
    }
    SubElement(root, "historyNodes", history)
    names = {"name": TOP, "key": TOP, "moduleName": TOP, "instanceId": "0"}
    instance = SubElement(root, "instanceCoverages", names)
    SubElement(instance, "id", _PLACE)
    coverage = SubElement(instance, "covergroupCoverage")
    group = SubElement(coverage, "cgInstance", name="functional", key="functional")
    SubElement(group, "options")
    identity = SubElement(group, "cgId", cgName="functional", moduleName=TOP)
    SubElement(identity, "cginstSourceId", _PLACE)
    SubElement(identity, "cgSourceId", _PLACE)
    for name, bins in found.points().items():
        _point(group, name, bins)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _point(group: Element, name: str, bins: list[Bin]) -> None:
    point = SubElement(group, "coverpoint", name=name, key=name)
    floor = str(bins[0].at_least)
    SubElement(point, "options", comment=_clean(bins[0].reason), at_least=floor)
    for index, one in enumerate(bins):
        kind = "bins" if one.waived is None else "ignore"
        what = {"name": _clean(one.name), "key": str(index), "type": kind}
        if one.waived is not None:
            what["alias"] = _clean(one.waived)
        place = str(index)
        values = SubElement(
            SubElement(point, "coverpointBin", what), "range", {"from": place, "to": place}
        )
        SubElement(values, "contents", coverageCount=str(one.hits))


def _moment(value: str) -> str:
    """Return a time in UTC without zone: not every reader of the format accepts one."""
    when = datetime.datetime.fromisoformat(value).astimezone(datetime.UTC)
    return when.replace(tzinfo=None).isoformat(timespec="seconds")


def _clean(value: str) -> str:
    return _ILLEGAL.sub("?", value)
