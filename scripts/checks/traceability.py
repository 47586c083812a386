# SPDX-License-Identifier: Apache-2.0
"""Traceability: every register field, pin and response field has a checker.

`verif/audit.yaml` says which checker compares what, when, and how exactly. The list of all fields
and pins comes from the register map, the ports of the top module and the messages of the link; an
entry that is missing, that matches nothing, or that names a checker or a test that does not exist,
is an error of `nf check`. So is a field that no test sees at two values: the tests of [shown_by] in
`verif/coverage/plan.toml` fail unless they do, and an entry names them. And so is a field without
the sweep, the test of cover point "read meanwhile", which fails unless it has read every status.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from cocotbext.cxl.wire.messages import S2MDRS, S2MNDR
from models.register_map import REG_MAP
from scripts.common.data import Some, at_least, like, load_list
from scripts.plan.discover import TestCase
from verif.coverage import coverage_plan, register_points
from verif.tests.ports import ports

_WITH_PORTS = ("nf_controller.sv", "nf_axi_ports.svh")  # the top module, and its macros
_NOT_COMPARED = frozenset({"clk", "rst_n"})


@dataclass(frozen=True)
class AuditEntry:
    """Entry of the audit: what one checker compares.

    Attributes:
        of: Globs of subjects such as "register:CTRL.CLOSE" (see `subjects`).
        checker: Function or method, "package.module:Class.method".
        when: When it compares, as text.
        compared: How exactly: with one value, with a range that races leave open, with a rule of a
            protocol; or it is an input that is driven, whose effect is compared.
        tests: Ids of the tests that are meant for it.
        sweep: Id of the test in which it is read and compared while something unrelated happens;
            each register and response field needs one.
    """

    of: Some[Annotated[str, like("^(register|pin|response):.+$")]]
    checker: Annotated[str, like("^[a-z_0-9.]+:[A-Za-z_0-9.]+$")]
    when: Annotated[str, at_least(5)]
    compared: Literal["exact", "range", "rule", "driven"]
    tests: Some[str]
    sweep: str = ""

    def covers(self, name: str) -> bool:
        """Return whether a glob of the entry matches a subject."""
        return any(fnmatchcase(name, glob) for glob in self.of)


def read(root: Path) -> list[AuditEntry]:
    """Return the entries of `verif/audit.yaml`, in order."""
    return load_list(root / "verif" / "audit.yaml", "audit", AuditEntry, least=1)


def subjects() -> list[str]:
    """Return the names of all register fields, pins and response fields of the device.

    They are "register:REG.FIELD", "register:REGION.REG.FIELD", "pin:NAME", "response:KIND.FIELD".
    """
    registers = REG_MAP.named().items()
    out = [f"register:{name}.{one.name}" for name, reg in registers for one in reg.fields]
    named = [ports(file, way) for file in _WITH_PORTS for way in ("input", "output")]
    out += [f"pin:{port}" for some in named for port in some if port not in _NOT_COMPARED]
    for kind in (S2MNDR, S2MDRS):
        out += [f"response:{kind.NAME}.{field.name}" for field in dataclasses.fields(kind)]
    return out


def problems(root: Path, entries: Sequence[AuditEntry], tests: Sequence[TestCase]) -> list[str]:
    """Return an error line for each mistake in the audit.

    These are subjects without an entry, globs that match nothing, unknown checkers and tests, and
    fields that no test sees change.
    """
    where, names, known = "verif/audit.yaml", subjects(), {test.id for test in tests}
    sweep = coverage_plan.entries()[register_points.SWEEP].test
    out = [
        f"{where}: nobody compares {name}"
        for name in names
        if not any(entry.covers(name) for entry in entries)
    ]
    for entry in entries:
        for glob in entry.of:
            if not any(fnmatchcase(name, glob) for name in names):
                out.append(f"{where}: {glob} fits no register field, pin or response field")
        if not _exists(root, entry.checker):
            out.append(f"{where}: checker {entry.checker} does not exist")
        named = [*entry.tests, *filter(None, (entry.sweep,))]
        out += [f"{where}: test {test} does not exist" for test in named if test not in known]
        shown = [one for one in entry.of if not one.startswith("pin:")]
        if shown and not entry.sweep:
            out.append(f"{where}: {shown[0]} names no sweep; add `sweep: {sweep}`")
        elif entry.sweep not in ("", sweep):
            out.append(f"{where}: {entry.of[0]} names {entry.sweep}, but the sweep is {sweep}")
    return out + _unshown(where, entries)


def _unshown(where: str, entries: Sequence[AuditEntry]) -> list[str]:
    """Return an error line for each changing field that no test sees change, or no named one."""
    out = []
    shown = register_points.fields()
    for register, fields in REG_MAP.named().items():
        for own, name in register_points.changing(register, fields).items():
            subject = f"register:{register}.{own}"
            if not shown[name]:
                todo = "name a test for it in [shown_by] of verif/coverage/plan.toml"
                out.append(f"no test sees {name} change: {todo}")
            elif not any(shown[name] in one.tests for one in entries if one.covers(subject)):
                out.append(f"{where}: {subject} changes in {shown[name]}, which is not named")
    return out


@functools.cache  # many entries name the same file
def _exists(root: Path, checker: str) -> bool:
    """Return whether a module of the tree defines the function, or the class and its method."""
    module, _, name = checker.partition(":")
    path = root / Path(*module.split(".")).with_suffix(".py")
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    parts = name.split(".")
    return all(re.search(rf"^\s*(?:async )?(?:def|class) {one}\b", text, re.M) for one in parts)


def rows(root: Path) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the audit's table in the documentation, the header first."""
    yield "what", "compared by", "when", "how", "test meant for it", "sweep"
    for entry in read(root):
        yield (
            ", ".join(f"`{glob}`" for glob in entry.of),
            f"`{entry.checker}`",
            entry.when,
            entry.compared,
            ", ".join(f"`{test}`" for test in entry.tests),
            f"`{entry.sweep}`" if entry.sweep else "",
        )
