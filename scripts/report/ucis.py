# SPDX-License-Identifier: Apache-2.0
"""Functional coverage as UCIS XML (Accellera UCIS 1.0, chapter 9), for tools that merge it.

A point is a coverpoint of one covergroup, its floor `at_least`, its reason the comment; a waived
bin is an ignored one with its reason as alias. A cross is a coverpoint too: its bins are named by
their axis values, which a merge compares. The written part of the format is in
`scripts/schema/ucis.xsd`.
"""

from __future__ import annotations

import datetime

from scripts.common.records import TOP
from scripts.report.functional import Functional
from scripts.report.invocation import Invocation
from scripts.report.templates import render


def text(found: Functional, invocation: Invocation) -> str:
    """Return the document. Times are in UTC without zone: not every reader accepts one."""
    when = datetime.datetime.fromisoformat(invocation.started).astimezone(datetime.UTC)
    started = when.replace(tzinfo=None).isoformat(timespec="seconds")
    return render("ucis.xml.j2", found=found, invocation=invocation, started=started, top=TOP)
