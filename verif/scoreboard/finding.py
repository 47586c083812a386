# SPDX-License-Identifier: Apache-2.0
"""Finding of a checker, and the key by which runs with the same fault count as one cause.

A text contains tags, addresses and data, which differ from run to run. A key contains none of them:
it names the checker, the mode of the region and what differs. It is the last line of the
exception's text, which the simulator's result file keeps; `scripts.run.verdict` reads it there.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

KEY_LINE = "cause key: "
APART = "; in "
"""Stands in a key before what tells sub-causes apart: the extent of a difference, the access."""
_WHEN = re.compile(r"^(?:axi: )?(?:clock|cycle) \d+: ")
# The link monitor names its rules: they are the key, whatever the flit held.
_LINK_RULE = re.compile(r"(?:^|\bclock \d+: )((?:M2S|S2M) [a-z_]+): ")
_VALUE = re.compile(r"\b0x[0-9a-fA-F]+\b|\d+(?:\.\d+)?")


def link_rule(text: str) -> str:
    """Return the key "link: RULE" if a text contains a finding of the link monitor, else ""."""
    rule = _LINK_RULE.search(text)
    return f"link: {rule[1]}" if rule else ""


class Finding(str):
    """Text of a finding (a str) with the key of its cause.

    Attributes:
        key: Key of the cause, without values.
        text: Explanation.
        data: Values, which the str holds after the explanation.
        line: Key of the line whose check failed, or None.
    """

    key: str
    text: str
    data: str
    line: Hashable

    def __new__(cls, text: str, key: str = "", data: str = "", line: Hashable = None) -> Finding:
        """Create a finding.

        Args:
            text: Explanation.
            key: Key of the cause; by default the rule of the link that `text` names, else `text`
                with numbers replaced by N.
            data: Values, put after the explanation.
            line: Key of the line in the model.
        """
        self = super().__new__(cls, f"{text}; {data}" if data else text)
        self.text, self.data, self.line = text, data, line
        self.key = key or link_rule(text) or _VALUE.sub("N", _WHEN.sub("", text))
        return self


class CheckFailed(AssertionError):
    """Failure of a test with all its findings, one per line; the last line is the key of the first.

    Args:
        found: Findings; the first one is the cause.
        run: Seed and profile of the run. They stand between explanation and data of the first
            finding, so that a line that has to be cut loses data only.
    """

    def __init__(self, found: Sequence[str], run: str) -> None:
        first = found[0] if isinstance(found[0], Finding) else Finding(found[0])
        data = f"; {first.data}" if first.data else ""
        lines = [f"{first.text}; {run}{data}", *found[1:], f"{KEY_LINE}{first.key}"]
        super().__init__("\n".join(lines))
