# SPDX-License-Identifier: Apache-2.0
"""Check of ERR_INFO, ERR_ADDR and ERR_TAG: the first refused access since the capture was armed.

Which one was first is known when it was alone. Of several in flight at once any may have been
(spec: controller §6); what the registers show must be one of them, and the same in all registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.expected_response import AccessError
from models.regions import Cause
from verif.scoreboard.operations import Op

NOTHING = AccessError(Cause.NONE, False, 0, 0, 0, 0)
_HIGH = 32
_LOW_MASK = (1 << _HIGH) - 1


@dataclass(slots=True)
class _Candidate:
    """A refused access; `certain`: it came after the capture was armed."""

    op: Op
    error: AccessError
    certain: bool


def error_of(op: Op) -> AccessError:
    """Return the content of the error registers for a refused access."""
    msg, access = op.msg, op.access
    return AccessError(
        access.cause, access.write, int(msg.opcode), msg.ldid, msg.addr >> 6 << 6, msg.tag
    )


def shown(error: AccessError, register: str) -> dict[str, int]:
    """Return the fields of one error register for an access."""
    if register == "ERR_INFO":
        return {
            "CAUSE": int(error.cause),
            "WRITE": int(error.write),
            "OPCODE": error.opcode,
            "LDID": error.ldid,
        }
    if register == "ERR_ADDR_LO":
        return {"VALUE": error.addr & _LOW_MASK}
    return {"VALUE": error.addr >> _HIGH if register == "ERR_ADDR_HI" else error.tag}


class ErrorCapture:
    """Predicted capture, from refused requests and the writes that arm it."""

    def __init__(self) -> None:
        self._candidates: list[_Candidate] = []
        self._open = 0
        """Accesses of which it is not known whether they were refused."""
        self._old = [NOTHING]
        """Values that the fields may show until the next capture."""
        self._known: list[AccessError] | None = None
        """Capture since it was armed, as far as reads have shown."""
        self._arming: int | None = None
        self._arms = 0

    def refused(self, op: Op) -> None:
        """Follow a request that must be refused."""
        self._candidates.append(_Candidate(op, error_of(op), self._arming is None))
        if len(self._candidates) > 64:
            self._candidates = self._first()

    def doubtful(self) -> None:
        """Note an unknown refusal: nothing is compared until the capture is armed again."""
        self._open += 1

    def arm_begin(self, now: int) -> None:
        """Begin a write of 1 to ERR_INFO.VALID."""
        self._arming = now
        self._arms += 1

    def arm_end(self) -> None:
        """End a write that arms the capture: a request in flight may be captured before or
        after.
        """
        since = self._arming or 0
        shown = [one.error for one in self._first()] if self._known is None else self._known
        certain = self._certain(since + 1)
        self._old = shown if certain or self._known is not None else [*self._old, *shown]
        left = [one for one in self._candidates if one.op.end < 0 or one.op.end > since]
        self._candidates = [_Candidate(one.op, one.error, False) for one in left]
        self._known, self._arming = None, None
        self._open = 0
        self._arms += 1

    def _first(self) -> list[_Candidate]:
        """Return the candidates that may have been first."""
        ends = [one.op.end for one in self._candidates if one.certain and one.op.end >= 0]
        limit = min(ends, default=None)
        if limit is None:
            return list(self._candidates)
        return [one for one in self._candidates if one.op.start <= limit]

    def _certain(self, now: int) -> bool:
        """Return whether a refused access was answered before `now`, since the capture was
        armed.
        """
        return any(one.certain and 0 <= one.op.end < now for one in self._candidates)

    def begin(self, now: int) -> tuple[bool, int]:
        """Begin a read."""
        certain = self._known is not None or self._certain(now + 1)
        return certain and self._arming is None, self._arms

    def check(self, register: str, fields: dict[str, int], before: tuple[bool, int]) -> str | None:
        """Return the error in a read that began with `before`, or None."""
        certain, arms = before
        armed = arms != self._arms or self._arming is not None
        first = [one.error for one in self._first()]
        if self._open:
            return None
        fields = dict(fields)
        valid = fields.pop("VALID", None)
        if armed:
            allowed = [*self._old, *first, *(self._known or ())]
        elif valid is not None:
            if valid and not first and self._known is None:
                return "ERR_INFO.VALID is 1, no access was refused"
            if not valid and certain:
                return f"ERR_INFO.VALID is 0, the model has {(self._known or first)[0]}"
            allowed = (self._known or first) if valid else self._old
        elif certain:
            allowed = self._known or first
        else:
            allowed = [*self._old, *first]
        matching = [error for error in allowed if shown(error, register) == fields]
        if not matching:
            some = [shown(error, register) for error in allowed[:4]]
            return f"{register} shows {fields}, expected one of {some}"
        if not armed and (valid or (valid is None and certain)):
            self._known = matching
        return None
