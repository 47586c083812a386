# SPDX-License-Identifier: Apache-2.0
"""Tests of the register generator: stale files, parameters, errors, and the RDL against the RTL."""

import re
import shutil
from pathlib import Path

import pytest

from models.access_decode import Cause
from models.commit_check import CommitCode
from models.modes import Mode
from models.parameters import DeviceParams
from models.register_map import REG_MAP
from models.register_types import FieldAccess
from verif.regs import generate
from verif.regs.generate import ROOT, RdlError, load, main
from verif.tests.packed_structs import layout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with copies of the RDL and of the files generated from it."""
    for name in (generate.RDL, *generate.outputs(load())):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_committed_files_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0
    assert capsys.readouterr() == ("", "")


def test_check_names_every_stale_file_in_one_line(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(tree / generate.RDL, 'name = "Window"', 'name = "Length"')
    assert main(["--check"], tree) == 0, "names of fields are in no generated file"
    edit(tree / generate.RDL, "reset = 64;", "reset = 32;")
    assert main(["--check"], tree) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert all(name in error for name in generate.outputs(load()))
    assert main([], tree) == 0
    assert main(["--check"], tree) == 0
    (tree / generate.MARKDOWN).unlink()
    assert main(["--check"], tree) == 1
    assert generate.MARKDOWN in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("reset = 64;", "reset = 512;", "does not"),
        ("reset = 64;", "", "reset"),
        ("@ 0x038", "@ 0x034", "overlap|does not compile"),
        ('desc = "Writing 1 clears every event counter; reads 0.";', "", "description"),
        ("onwrite = woclr;", "onwrite = woset;", "not supported"),
        ('COUNTS("slots")) FILL', 'COUNTS("pool")) FILL', "counts 'pool', known are access"),
        ("counter; incrsaturate;", "", "no others, say what they count"),
    ],
)
def test_wrong_rdl_is_one_line(
    tree: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    edit(tree / generate.RDL, old, new)
    with pytest.raises(RdlError, match=message):
        load(tree / generate.RDL)
    capsys.readouterr()
    assert main(["--check"], tree) == 1


@pytest.mark.parametrize(
    "params",
    [
        DeviceParams(),
        DeviceParams(1, 16, 3, 12, 16, 8, 4),
        DeviceParams(16, 1024, 8, 30, 255, 255, 200),
    ],
)
def test_expanded_map_is_the_rdl_elaborated_with_the_parameters(params: DeviceParams) -> None:
    elaborated = load(params=params).map

    assert REG_MAP.expand(params) == elaborated.expand(params)
    # Without scaling, too: what the RDL itself computes is what the map scales to.
    fixed = {
        reg.name: [(f.name, f.width, f.reset) for f in reg.fields] for reg in elaborated.registers
    }
    for name, fields in fixed.items():
        scaled = REG_MAP.expand(params)[name].fields
        assert fields == [(f.name, f.width, f.reset) for f in scaled]


def test_enums_of_the_rtl_package_are_the_enumerations() -> None:
    packages = ("nf_pkg", "nf_ram_pkg")
    text = "".join((ROOT / f"hdl/pkg/{one}.sv").read_text(encoding="utf-8") for one in packages)
    types = {
        "Mode": ("mode_e", "MODE"),
        "Commit": ("commit_code_e", "COMMIT"),
        "Cause": ("cause_e", "CAUSE"),
        "Lrsm": ("lrsm_e", "LRSM"),
        "LinkError": ("link_error_e", "LINK_ERR"),
        "Ram": ("ram_e", "RAM"),
    }
    enums = load().enums
    assert set(enums) == set(types)
    for name, (type_name, prefix) in types.items():
        body = re.search(rf"typedef enum logic \[\d:0\] \{{([^}}]*)\}} {type_name};", text)
        assert body is not None, type_name
        found = re.findall(rf"\b{prefix}_(\w+)\s*= \d'd(\d+)", body[1])
        assert {(m, int(v)) for m, v in found} == {(m, v) for m, v, _ in enums[name]}


def test_every_counter_of_the_rtl_counts_its_own_event() -> None:
    """Check that `nf_event_counters` connects each event to the counter of the same name, once."""
    text = (ROOT / "hdl/regs/nf_event_counters.sv").read_text(encoding="utf-8")
    pairs = re.findall(r"ADDR_(\w+)\W+(?:9'\()?(?:core|link|ram)_events\.(\w+)", text)
    assert sorted(pairs) == sorted((name, name.lower()) for name in REG_MAP.counters())
    others = set(re.findall(r"ADDR_(\w+)", text)) - {name for name, _ in pairs}
    assert others == {"FIRST_COUNTER", "LAST_COUNTER"}, "the range of counters is typed by hand"


def test_the_last_counter_of_the_map_is_the_last_of_the_rtl(tree: Path) -> None:
    more = "counter_r FURTHER @ 0x1F4; FURTHER->desc = "
    edit(tree / generate.RDL, "  region_rf REGION[", f'  {more}"x";\n  region_rf REGION[')
    package = generate.outputs(load(tree / generate.RDL))[generate.SV_PACKAGE]
    assert "ADDR_FIRST_COUNTER = ADDR_SLOT_HIT;" in package
    assert "ADDR_LAST_COUNTER = ADDR_FURTHER;" in package


def test_layouts_of_the_ports() -> None:
    assert layout("link_status_t") == (("lrsm", 3), ("rrsm", 1), ("aborted", 1), ("error_kind", 4))
    assert dict(layout("core_events_t"))["illegal_code"] == 9
    for name in ("nothing_t", "cause_e"):
        with pytest.raises(KeyError, match=f"no package has a structure {name}"):
            layout(name)


def test_models_have_the_enumerations_of_the_map() -> None:
    models = {"Mode": Mode, "Commit": CommitCode, "Cause": Cause}
    for name, enum in models.items():
        assert {member.name: member.value for member in enum} == REG_MAP.enums[name]


def test_documentation_names_every_field() -> None:
    text = (ROOT / generate.MARKDOWN).read_text(encoding="utf-8")
    for reg in (*REG_MAP.registers, *REG_MAP.region_registers):
        assert f"| {reg.name} |" in text
        if not reg.counts:
            assert all(f"| {f.name} | {f.access.value} |" in text for f in reg.fields)
    assert FieldAccess.W1C.value in text
