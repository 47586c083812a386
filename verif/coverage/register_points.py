# SPDX-License-Identifier: Apache-2.0
"""Cover points of registers: event counters and status fields, and flipped bits in RAMs.

Each field must be read as 0 and as another value. A checker compares each read with a range, which
a field that never changes may well satisfy. So every field that the hardware changes has bins here,
made from the register map. A field that is added to the map without a test in `plan.toml` is an
error of `nf check`, and a bin without a hit misses the coverage goal of the nightly suite. The
tests named in the plan fail by themselves if a field does not change in them.
"""

from __future__ import annotations

from collections.abc import Sequence

from models.register_map import REG_MAP
from models.register_types import FieldAccess, Register
from verif.coverage.cover_model import BETWEEN, CoverModel
from verif.coverage.coverage_plan import codes, shown_by
from verif.coverage.points import Points

SHOWN_BY: dict[str, tuple[str, ...]] = shown_by()
"""Fields, by the test in which each of them is read as another value than 0; LINK_UP as 0."""
_ZERO, _OTHER = "0", "not 0"
_REGISTERS = REG_MAP.expand()
_NAMES = {number: name for name, number in REG_MAP.enums["Ram"].items()}
_RAMS = codes("RAMS")


def changing(register: Register, prefix: str = "") -> dict[str, str]:
    """Return the names in the plan of the fields that the hardware changes, by name of the field.

    Fields of access PULSE are left out; a field VALUE is named as its register.

    Args:
        register: Register.
        prefix: Text before the name of the register, "REGION." for one of a region.
    """
    return {
        f.name: prefix + register.name + ("" if f.name == "VALUE" else f".{f.name}")
        for f in register.fields
        if f.volatile and f.access is not FieldAccess.PULSE
    }


def fields() -> dict[str, str]:
    """Return the test that must see each changing field change, by name of the field; "" for none.

    Raises:
        ValueError: [shown_by] of `plan.toml` names a field that the hardware does not change.
    """
    names = [n for r in REG_MAP.registers for n in changing(r).values()]
    names += [n for r in REG_MAP.region_registers for n in changing(r, "REGION.").values()]
    shown = {name: test for test, shows in SHOWN_BY.items() for name in shows}
    if unknown := shown.keys() - set(names):
        raise ValueError(f"[shown_by] names {min(unknown)}, which the hardware does not change")
    return {name: shown.get(name, "") for name in names}


class RegisterPoints:
    """Cover points of the values of fields that the hardware changes, sampled by `read`.

    There is one point for each test that must see fields change.
    """

    def __init__(self, model: CoverModel) -> None:
        tests = fields()
        counters = REG_MAP.counters()
        self.points = {
            test: model.point(
                f"changes in {test or 'no test'}",
                "counters that count, and status fields that are 0 and another value",
                [
                    name + BETWEEN + value
                    for name, own in tests.items()
                    if own == test
                    for value in ((_OTHER,) if name in counters else (_ZERO, _OTHER))
                ],
                test=test,
            )
            for test in dict.fromkeys(tests.values())
        }
        every = [("", one) for one in REG_MAP.registers]
        every += [("REGION.", one) for one in REG_MAP.region_registers]
        self._fields = {
            prefix + register.name: [
                (self.points[tests[name]], name, register.field(own))
                for own, name in changing(register, prefix).items()
            ]
            for prefix, register in every
        }

    def read(self, name: str, data: int) -> None:
        """Count the bin of each field in a register read: 0 or not 0.

        Args:
            name: Name of the register, with its region: REGION[2].STATUS.
            data: Value read.
        """
        leaf = name.rpartition("]")[2]
        for point, field, place in self._fields["REGION" + leaf if leaf != name else name]:
            value = _OTHER if place.extract(data) else _ZERO
            if (key := field + BETWEEN + value) in point.bins:
                point.hit(key)

    def unseen(self, test: str) -> Sequence[str]:
        """Return an error text for each field that the test `test` must see change and did not."""
        out = []
        for name in SHOWN_BY.get(test, ()):
            value = _ZERO if name == "STATUS.LINK_UP" else _OTHER
            if not self.points[test].bins[name + BETWEEN + value]:
                what = "another value than 0" if value == _OTHER else value
                out.append(f"COVERAGE {name} was never read as {what}; {test} is meant to show it")
        return out


class RamPoints(Points):
    """Cover points of injected and captured RAM errors, from accesses to RAS_INJECT and
    RAS_ERROR.

    The bits flip in the RAMs of the device (controller, second edition, section 8). Registers tell
    which RAM was damaged; the white-box points "RAM error moment" and "RAM error place" tell when
    and where the damage was found.
    """

    def register(self, name: str, value: int, write: bool) -> None:
        """Count the bin of the RAM in a write of RAS_INJECT with GO, or a read of RAS_ERROR with
        VALID.
        """
        point, valid = ("RAM flip", "GO") if write else ("RAM error", "VALID")
        if name == ("RAS_INJECT" if write else "RAS_ERROR"):
            fields = _REGISTERS[name].unpack(value)
            ram = _NAMES.get(fields["RAM"])
            if fields[valid] and ram in _RAMS:
                self.hit(point, ram)
