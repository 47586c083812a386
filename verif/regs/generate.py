# SPDX-License-Identifier: Apache-2.0
"""Generator of the register package, the map as data and the documentation from the RDL.

    python -m verif.regs.generate           write the files
    python -m verif.regs.generate --check   exit 1 with one line when a file is stale

The RDL (`hdl/regs/nf_regs.rdl`) is the single source of the control registers
(spec: controller §7).
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from systemrdl import RDLCompileError, RDLCompiler
from systemrdl.node import AddrmapNode, FieldNode, RegfileNode, RegNode
from systemrdl.rdltypes import OnWriteType

from models.parameters import DeviceParams
from models.register_types import Counts, Field, FieldAccess, Register, RegMap
from neuron_fabric.errors import LineError, say

ROOT = Path(__file__).resolve().parents[2]
RDL = "hdl/regs/nf_regs.rdl"
SV_PACKAGE = "hdl/regs/nf_regs_pkg.sv"
JSON_MAP = "models/nf_regs.json"
MARKDOWN = "docs/registers.md"


class RdlError(LineError):
    """Error in the RDL: it does not compile, or leaves the subset that the generator supports."""


@dataclass(frozen=True)
class Source:
    """Parts of the RDL that the generator uses.

    Attributes:
        map: Register map.
        text: Description by name: "REG", "REG.FIELD", "REGION.REG", "REGION.REG.FIELD".
        enums: By name of an enumeration, its members as (name, value, description).
    """

    map: RegMap
    text: dict[str, str]  # "REG", "REG.FIELD", "REGION.REG...": description
    enums: dict[str, tuple[tuple[str, int, str], ...]]  # enum: (name, value, description)


def load(path: Path | None = None, params: DeviceParams | None = None) -> Source:
    """Compile the RDL and return its content.

    Args:
        path: File of the RDL; by default the one of this tree.
        params: Parameters of the device; by default the default ones.

    Raises:
        RdlError: It does not compile or leaves the supported subset; the message is one line.
    """
    rdlc = RDLCompiler()
    try:
        rdlc.compile_file(str(path or ROOT / RDL))
        values: dict[str, Any] = dict((params or DeviceParams()).as_rtl())
        top = rdlc.elaborate("nf_regs", parameters=values).top
    except RDLCompileError as error:
        raise RdlError(f"{RDL} does not compile: {error}") from error
    return _Reader().read(top)


class _Reader:
    """Reader of registers, texts and enumerations of the elaborated RDL."""

    def __init__(self) -> None:
        self.text: dict[str, str] = {}
        self.enums: dict[str, tuple[tuple[str, int, str], ...]] = {}

    def read(self, top: AddrmapNode) -> Source:
        registers: list[Register] = []
        region: RegfileNode | None = None
        for child in top.children():
            if isinstance(child, RegNode):
                registers.append(self._register(child, ""))
            elif isinstance(child, RegfileNode) and child.inst_name == "REGION":
                region = child
            else:
                raise RdlError(f"{child.get_path()}: only registers and REGION are supported")
        if region is None or not region.is_array or region.array_stride is None:
            raise RdlError("the map has no array REGION")
        template = tuple(
            self._register(reg, "REGION.") for reg in region.children() if isinstance(reg, RegNode)
        )
        enums = {n: {m: value for m, value, _ in members} for n, members in self.enums.items()}
        place = region.raw_address_offset, region.array_stride
        reg_map = RegMap(tuple(registers), template, *place, enums)
        return Source(reg_map, self.text, self.enums)

    def _register(self, node: RegNode, prefix: str) -> Register:
        if node.is_array or node.get_property("regwidth") != 32:
            raise RdlError(f"{node.get_path()}: registers are single and 32 bits wide")
        name = prefix + node.inst_name
        self._describe(name, node)
        fields = tuple(self._field(f, name) for f in node.fields())
        return Register(node.inst_name, node.raw_address_offset, fields, _counts(node))

    def _field(self, node: FieldNode, register: str) -> Field:
        self._describe(f"{register}.{node.inst_name}", node)
        reset = node.get_property("reset")
        if not isinstance(reset, int):
            raise RdlError(f"{node.get_path()}: every field needs a constant reset value")
        if reset >> node.width:
            raise RdlError(f"{node.get_path()}: reset value {reset:#x} does not fit")
        encode = node.get_property("encode")
        enum = None
        if encode is not None:
            enum = _enum_class(encode.type_name)
            self.enums[enum] = tuple(
                (m.name, m.value, " ".join((m.rdl_desc or "").split())) for m in encode
            )
        return Field(
            name=node.inst_name,
            lsb=node.low,
            width=node.width,
            access=_access(node),
            reset=reset,
            volatile=bool(node.is_volatile or node.get_property("hwset")),
            enum=enum,
            reset_parameter=node.get_property("reset_parameter"),
            width_parameter=node.get_property("width_parameter"),
            maximum=node.get_property("maximum"),
        )

    def _describe(self, key: str, node: RegNode | FieldNode) -> None:
        desc = node.get_property("desc")
        if not desc:
            raise RdlError(f"{node.get_path()}: description missing")
        self.text[key] = " ".join(desc.split())  # long texts span lines


def _counts(node: RegNode) -> Counts | None:
    """Return which kind of events a counter register counts; None for any other register.

    Raises:
        RdlError: A counter has no kind or an unknown one, or another register has one.
    """
    kind = node.get_property("counts", default=None)
    if any(field.get_property("counter") for field in node.fields()) != (kind is not None):
        raise RdlError(f"{node.get_path()}: event counters, and no others, say what they count")
    if kind is not None and kind not in list(Counts):
        raise RdlError(f"{node.get_path()}: counts {kind!r}, known are {', '.join(Counts)}")
    return None if kind is None else Counts(kind)


def _enum_class(name: str) -> str:
    """Return the name in the register map of an enumeration of the RDL: `commit_e` -> `Commit`."""
    return "".join(part.capitalize() for part in name.removesuffix("_e").split("_"))


def _access(node: FieldNode) -> FieldAccess:
    if not node.is_sw_readable:
        raise RdlError(f"{node.get_path()}: fields that cannot be read are not supported")
    if not node.is_sw_writable:
        return FieldAccess.RO
    if node.get_property("commits"):
        return FieldAccess.COMMIT
    if node.get_property("singlepulse"):
        return FieldAccess.PULSE
    on_write = node.get_property("onwrite")
    if on_write is OnWriteType.woclr:
        return FieldAccess.W1C
    if on_write is not None:
        raise RdlError(f"{node.get_path()}: onwrite {on_write.name} is not supported")
    return FieldAccess.RW


def _plain(item: Register | Field | FieldAccess) -> Any:
    """Return a part of the register map as a value for JSON; fields with default values are left
    out.
    """
    if isinstance(item, FieldAccess):
        return item.value
    values = ((f, getattr(item, f.name)) for f in dataclasses.fields(item))
    return {f.name: value for f, value in values if value != f.default}


def _bits(field: Field) -> str:
    """Return the bit range of a field as text for the documentation: "7:4", "3", or with a
    parameter.
    """
    if field.width_parameter is not None:
        return f"{field.width_parameter}-1:0" if field.lsb == 0 else f"+:{field.width_parameter}"
    return f"{field.lsb + field.width - 1}:{field.lsb}" if field.width > 1 else f"{field.lsb}"


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters |= {
    "bits": _bits,
    "cell": lambda text: text.replace("|", "\\|"),
    "json": partial(json.dumps, default=_plain),
}


def outputs(source: Source) -> dict[str, str]:
    """Return the text of every generated file, by its path relative to the repository.

    They are the SystemVerilog package, the map as JSON (for the default parameters, read by
    `models.register_map`) and the documentation.
    """
    return {
        path: _TEMPLATES.get_template(f"{Path(path).name}.j2").render(
            map=source.map,
            text=source.text,
            enums=source.enums,
            RW=FieldAccess.RW,
            rdl=RDL,
            command="python -m verif.regs.generate",
        )
        for path in (SV_PACKAGE, JSON_MAP, MARKDOWN)
    }


def stale(files: dict[str, str], root: Path = ROOT) -> list[str]:
    """Return the paths of `files` that are missing under `root` or differ from their text."""
    out = []
    for path, text in files.items():
        target = root / path
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            out.append(path)
    return out


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command line: write the generated files, or check them with --check.

    Args:
        argv: Words after the command; None takes those of the process.
        root: Root of the tree.

    Returns:
        Exit status: 1 for an error in the RDL or, with --check, for a stale file; else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m verif.regs.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when stale")
    args = parser.parse_args(argv)
    try:
        files = outputs(load(root / RDL))
    except RdlError as error:
        say(error, file=sys.stderr)
        return 1
    old = stale(files, root)
    if args.check:
        if old:
            names = ", ".join(old)
            say(f"stale: {names}; run `python -m verif.regs.generate`", file=sys.stderr)
        return 1 if old else 0
    for path in old:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(files[path], encoding="utf-8")
        say(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
