# SPDX-License-Identifier: Apache-2.0
"""Check of ERR_INFO, ERR_ADDR and ERR_TAG, which show the first refused access since they were
armed.

Software arms the capture by a write of 1 to ERR_INFO.VALID. Of several refused accesses in flight
at once any may have been the first (spec: controller §6); the registers must show one of them, and
the same in all registers.
"""

from dataclasses import dataclass

from models.access_decode import Cause
from models.expected_response import AccessError
from verif.scoreboard.operations import Op

NOTHING = AccessError(Cause.NONE, False, 0, 0, 0, 0)
_HIGH = 32
_LOW_MASK = (1 << _HIGH) - 1


@dataclass(slots=True)
class _Candidate:
    """Refused access that the registers may show.

    Attributes:
        op: The request.
        error: Content of the registers for it.
        certain: Whether it was refused after the capture was armed; if False, maybe before.
    """

    op: Op
    error: AccessError
    certain: bool


def error_of(op: Op) -> AccessError:
    """Return the content of the error registers for a refused request."""
    msg, access = op.msg, op.access
    return AccessError(
        access.cause, access.write, int(msg.opcode), msg.ldid, msg.addr >> 6 << 6, msg.tag
    )


def shown(error: AccessError, register: str) -> dict[str, int]:
    """Return the fields that one error register shows for a captured access, without VALID.

    Args:
        error: Captured access.
        register: ERR_INFO, ERR_ADDR_LO, ERR_ADDR_HI or ERR_TAG.
    """
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
    """Predictor of the error capture, from refused requests and the writes that arm it."""

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
        self.certain: set[str] = set()
        """Fields that could have one value only in the last read that was checked."""

    def refused(self, op: Op) -> None:
        """Record a request that must be refused, when it arrives; it may be captured."""
        self._candidates.append(_Candidate(op, error_of(op), self._arming is None))
        # One in flight may be the first after the next arming, even if it is none now.
        first = self._first()
        self._candidates = [one for one in self._candidates if one in first or one.op.end < 0]

    def doubtful(self) -> None:
        """Record a request that may have been refused: no read is checked until the capture is
        armed again.
        """
        self._open += 1

    def arm_begin(self, now: int) -> None:
        """Record the start of a write of 1 to ERR_INFO.VALID, at time `now`."""
        self._arming = now
        self._arms += 1

    def arm_end(self) -> None:
        """Record the response to a write of 1 to ERR_INFO.VALID.

        Requests in flight during the write may be captured before or after it.
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
        """Return the refused accesses that may have been the first one since the capture was
        armed.
        """
        ends = [one.op.end for one in self._candidates if one.certain and one.op.end >= 0]
        limit = min(ends, default=None)
        if limit is None:
            return list(self._candidates)
        return [one for one in self._candidates if one.op.start <= limit]

    def _certain(self, now: int) -> bool:
        """Return whether an access refused for certain since arming was answered before time
        `now`.
        """
        return any(one.certain and 0 <= one.op.end < now for one in self._candidates)

    def begin(self, now: int) -> tuple[bool, int]:
        """Return the state that `check` needs of the begin of a read of an error register.

        Returns:
            Whether an access is captured for certain, and the number of starts and ends of arming
            writes.
        """
        certain = self._known is not None or self._certain(now + 1)
        return certain and self._arming is None, self._arms

    def check(self, register: str, fields: dict[str, int], before: tuple[bool, int]) -> str | None:
        """Check a read of an error register.

        A read that shows a capture settles which access was the first.

        Args:
            register: Name of the register.
            fields: Value by name of the field.
            before: Result of `begin` when the read began.

        Returns:
            Text of the finding, or None.
        """
        certain, arms = before
        armed = arms != self._arms or self._arming is not None
        first = [one.error for one in self._first()]
        self.certain = set()
        if self._open:
            return None
        fields = dict(fields)
        valid = fields.pop("VALID", None)
        none = not first and self._known is None
        if valid is not None and not armed and (certain or none):
            self.certain.add("VALID")
        if armed or (valid is None and not certain):
            allowed = [*self._old, *first]
        elif valid is not None:
            if valid and none:
                return "ERR_INFO.VALID is 1, no access was refused"
            if not valid and certain:
                return f"ERR_INFO.VALID is 0, the model has {(self._known or first)[0]}"
            allowed = (self._known or first) if valid else self._old
        else:
            allowed = self._known or first
        matching = [error for error in allowed if shown(error, register) == fields]
        if len(matching) == len(allowed):
            self.certain |= fields.keys()
        if not matching:
            some = [shown(error, register) for error in allowed[:4]]
            return f"{register} shows {fields}, expected one of {some}"
        if not armed and (valid or (valid is None and certain)):
            self._known = matching
        return None
