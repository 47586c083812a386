# SPDX-License-Identifier: Apache-2.0
"""Jinja2 templates of all reports: the pages in HTML, JUnit XML and UCIS XML.

Jinja2 escapes HTML. A template of XML passes each value through `attribute` (which adds the
quotes) or `content`: XML 1.0 cannot contain all characters, not even escaped, and a log may.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import escape

from jinja2 import DictLoader, Environment, StrictUndefined, select_autoescape

from scripts.common.terminal import many
from scripts.report.outcome import Outcome

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_QUOTED = {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#09;"}


def _content(value: object) -> str:
    return escape(_ILLEGAL.sub("?", str(value)))


def _attribute(value: object) -> str:
    return '"' + escape(_ILLEGAL.sub("?", str(value)), _QUOTED) + '"'


# Read at import: a long run must not use files that were edited or checked out meanwhile.
_FILES = {
    path.name: path.read_text(encoding="utf-8")
    for path in Path(__file__).parent.iterdir()
    if path.suffix in (".j2", ".css", ".js")
}
_ENVIRONMENT = Environment(
    loader=DictLoader(_FILES),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters |= {"attribute": _attribute, "content": _content, "many": many}
_ENVIRONMENT.globals["Outcome"] = Outcome


def source(name: str) -> str:
    """Return a file that a template includes as it is: a style or a script."""
    return _FILES[name]


def render(name: str, **values: object) -> str:
    """Return the template of that name with these values."""
    return _ENVIRONMENT.get_template(name).render(values)
