# SPDX-License-Identifier: Apache-2.0
"""Cover points of registers: the two values of each field, status during other activity, RAM flips.

Each field must be read as 0 and as another value, by a read that could have returned nothing else.
A checker compares each read with a range, which a field that never changes may well satisfy. So
every field that can change has bins here, made from the register map. A field that is added to the
map without a test in `plan.toml` is an error of `nf check`, and a bin without a hit misses the
coverage goal of the nightly suite. The tests named in the plan fail by themselves if they miss a
bin of a field that they show.
"""

from collections.abc import Mapping, Sequence

from models.access_decode import Kind
from models.register_map import REG_MAP
from models.register_types import FieldAccess, Register
from verif.coverage.cover_model import BETWEEN, CoverModel
from verif.coverage.coverage_plan import Points, codes, entries, shown_by
from verif.scoreboard.operations import Op

SHOWN_BY: dict[str, tuple[str, ...]] = shown_by()
"""Fields, by the test in which each of them is read as 0 and as another value."""
SWEEP = "read meanwhile"
"""Point of the status fields that are read while something unrelated happens."""
_ZERO, _OTHER = "0", "not 0"
_REGISTERS = REG_MAP.expand()
_NAMES = {number: name for name, number in REG_MAP.enums["Ram"].items()}
_RAMS = codes("RAMS")
_FLAGS = codes("FLAGS")
_REGION_BITS = {"DONE": "bit of DONE", "FALLBACK": "bit of FALLBACK"}


def changing(name: str, register: Register) -> dict[str, str]:
    """Return the names in the plan of the fields that can change, by name of the field.

    Fields of access PULSE and constants are left out; a field VALUE is named as its register.

    Args:
        name: Name of the register in `RegMap.named`.
        register: Register.
    """
    return {
        f.name: name if f.name == "VALUE" else f"{name}.{f.name}"
        for f in register.fields
        if f.access is FieldAccess.RW or (f.volatile and f.access is not FieldAccess.PULSE)
    }


def fields() -> dict[str, str]:
    """Return the test that must see each changing field change, by name of the field; "" for none.

    Raises:
        ValueError: [shown_by] of `plan.toml` names a field that cannot change.
    """
    names = [one for each in REG_MAP.named().items() for one in changing(*each).values()]
    shown = {name: test for test, shows in SHOWN_BY.items() for name in shows}
    if unknown := shown.keys() - set(names):
        raise ValueError(f"[shown_by] names {min(unknown)}, which cannot change")
    return {name: shown.get(name, "") for name in names}


def _values(field: str) -> tuple[str, ...]:
    return (_OTHER,) if field in codes("NEVER_0") else (_ZERO, _OTHER)


class RegisterPoints(Points):
    """Cover points of the values of fields that can change, sampled by `read` and `view`.

    There is one point for each test that must see fields change. A value counts if the predictor
    allowed no other one, or if the field is in ASSERTED of the plan: the pins do not show when
    these change, so that the test itself compares them.

    Attributes:
        regions: Number of regions of the device.
        meanwhile: Activity of the device that the sweep of status fields has under way, or "".
    """

    def __init__(self, model: CoverModel) -> None:
        super().__init__(model)
        self.regions = 0
        self.meanwhile = ""
        self.sweep = model.points[SWEEP]
        self._asserted = codes("ASSERTED")
        tests = fields()
        self.points = {
            test: model.point(
                f"changes in {test or 'no test'}",
                "every field of a register is 0 and another value, and must be",
                [
                    name + BETWEEN + value
                    for name, own in tests.items()
                    if own == test
                    for value in _values(name)
                ],
                test=test,
            )
            for test in dict.fromkeys(tests.values())
        }
        self._fields = {
            name: [
                (self.points[tests[field]], field, register.field(own))
                for own, field in changing(name, register).items()
            ]
            for name, register in REG_MAP.named().items()
        }

    def read(self, name: str, data: int, certain: Mapping[str, int]) -> None:
        """Count the bins of a register read: each field is 0 or not 0; flags of regions.

        Args:
            name: Name of the register, with its region: REGION[2].STATUS.
            data: Value read.
            certain: Bits of each field that could have one value only.
        """
        leaf = name.rpartition("]")[2]
        what = "REGION" + leaf if leaf != name else name
        places, every = self._fields[what], True
        for point, field, place in places:
            if ~certain.get(place.name, 0) & (1 << place.width) - 1 and field not in self._asserted:
                every = False
            else:
                value = _OTHER if place.extract(data) else _ZERO
                if value in _values(field):
                    point.hit(field, value)
        if every and f"{self.meanwhile}{BETWEEN}{what}" in self.sweep.bins:
            self.sweep.hit(self.meanwhile, what)
        if what == "REGION.STATUS":
            region = name[len("REGION[") : name.index("]")]
            for flag in set(_FLAGS) & certain.keys():
                bit = REG_MAP.region_register("STATUS").field(flag).extract(data)
                self.hit("flag of region", flag, region, str(bit))
        elif what in _REGION_BITS:
            for bit in range(self.regions):
                if certain["VALUE"] >> bit & 1:
                    self.hit("flag of region", _REGION_BITS[what], str(bit), str(data >> bit & 1))

    def view(self, op: Op) -> None:
        """Count a read of INFO or STATUS through a region's window that was compared exactly."""
        if self.meanwhile and op.read and op.access.kind in (Kind.INFO, Kind.STATUS):
            self.sweep.hit(self.meanwhile, f"selector {op.access.selector}")

    def shown(self, test: str) -> list[str]:
        """Return the names of the registers of which a test must see fields change."""
        point = self.points.get(test)
        names = [n for n, some in self._fields.items() if any(point is one for one, *_ in some)]
        return [name.replace("REGION.", "REGION[0].") for name in names]

    def missing(self) -> list[str]:
        """Return what has not yet been read exactly in the present activity of the sweep."""
        names = [name.split(BETWEEN) for name in self.sweep.holes]
        return [what for activity, what in names if activity == self.meanwhile]

    def unseen(self, test: str) -> Sequence[str]:
        """Return an error text for each value that the test `test` must see and did not."""
        wanted = [
            (name, value, self.points[test].bins[name + BETWEEN + value])
            for name in SHOWN_BY.get(test, ())
            for value in _values(name)
        ]
        out = [
            f"COVERAGE {name} was never read as {value} where it had to be; {test} is meant to "
            "show it"
            for name, value, hits in wanted
            if not hits
        ]
        if test == entries()[SWEEP].test:
            out += [f"COVERAGE {SWEEP}: {name} was never compared" for name in self.sweep.holes]
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
