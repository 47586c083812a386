# SPDX-License-Identifier: Apache-2.0
"""A third simulator, which lives in this file alone: built, run, recorded, reported and listed.

It is a Python program: its compiler copies the sources into one file, its simulator writes the
result file that cocotb would. No file of the runner knows of it, and none may name the others.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Callable

import pytest

from scripts.build import registry
from scripts.common import process
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.conftest import Project

STUB = '''
    import os
    import sys

    from scripts.build import registry
    from scripts.build.simulator import Simulator
    from scripts.cli.main import main
    from scripts.common.toolchain import Finding

    COMPILER = """
    import pathlib, sys
    out, *sources = map(pathlib.Path, sys.argv[1:])
    text = "".join(source.read_text() for source in sources)
    if "asign" in text:
        sys.exit("toy.sv:1: error: no such word as asign")
    out.write_text(text)
    """
    SIMULATOR = """
    import json, os, pathlib, re, sys
    from scripts.plan.discover import discover
    with open(os.environ["NF_REGISTERED"], "w") as out:
        json.dump([name for test in discover() for name in test.cases], out)
    assert "module toy" in pathlib.Path(sys.argv[1]).read_text()
    wanted = re.compile(os.environ["COCOTB_TEST_FILTER"])
    with open(os.environ["COCOTB_RESULTS_FILE"], "w") as out:
        out.write("<testsuites><testsuite>")
        for name in ("adds_one", "wrong"):
            if wanted.match(f"verif.tests.test_toy.{name}"):
                bad = "<failure type='AssertionError' message='q is not 77'/>"
                out.write(f"<testcase name='{name}' time='0.1' sim_time_ns='50'>")
                out.write((bad if name == "wrong" else "") + "</testcase>")
        out.write("</testsuite></testsuites>")
    print("seed", sys.argv[2])
    """


    class Stub(Simulator):
        name = "stub"
        missing = "the stub is not installed"
        forks = False
        message_start = "stub: "
        severities = ("STUB-ERROR",)
        lint_title = "stub reads"
        supported_gpi_interfaces = {"verilog": ["vpi"]}

        @classmethod
        def available(cls):
            return True

        @classmethod
        def identity(cls):
            return "stub 1.0"

        @classmethod
        def version(cls):
            return "1.0"

        @classmethod
        def findings(cls):
            return [Finding("stub", "optional", "1.0", sys.executable, "")]

        @classmethod
        def products(cls, top):
            return [f"{top}.stub"]

        @classmethod
        def run_arguments(cls, spec, folder):
            return [str(spec.seed)]

        def _simulator_in_path(self):
            pass

        def _get_include_options(self, includes):
            return []

        _get_define_options = _get_parameter_options = _get_include_options

        def _build_command(self):
            product = self.build_dir / f"{self.hdl_toplevel}.stub"
            return [[sys.executable, "-c", COMPILER, str(product), *map(str, self.sources)]]

        def _test_command(self):
            product = self.build_dir / f"{self.sim_hdl_toplevel}.stub"
            return [[sys.executable, "-c", SIMULATOR, str(product), *self.test_args]]


    registry.register(Stub)
    sys.exit(main())
'''


@pytest.fixture(scope="module")
def nf(project: Project) -> Callable[..., tuple[int, str]]:
    """Return a function that runs `nf` of a small project with the stub registered."""
    program = project.folder / "nf_with_stub.py"
    text = re.sub(r'"""\n(.*?)"""', _dedented, textwrap.dedent(STUB), flags=re.DOTALL)
    program.write_text(text, encoding="utf-8")

    def run(*words: str) -> tuple[int, str]:
        command = [sys.executable, str(program), *words]
        done = process.captured(command, cwd=project.folder, env=project.environment())
        return done.returncode, done.stdout + done.stderr

    return run


def _dedented(found: re.Match[str]) -> str:
    return f'"""\n{textwrap.dedent(found[1])}"""'


def test_a_third_simulator(nf: Callable[..., tuple[int, str]], project: Project) -> None:
    code, text = nf("run", "test_toy::adds_one", "test_toy::wrong", "--sim", "stub", "--seed", "7")
    assert code == 1, text
    assert "PASS test_toy::adds_one stub toy seed 7" in text
    assert "mismatch: AssertionError: q is not 77" in text
    assert "failed the same way when it was run again" in text
    assert "--sim stub --seed 7" in text  # the line to paste
    records = {record.name: record for record in project.records()}
    assert {record.sim for record in records.values()} == {"stub"}
    assert "seed 7" in (project.folder / records["test_toy::adds_one"].log).read_text(
        encoding="utf-8"
    )
    code, text = nf("history", "--sim", "stub")
    assert (code, text.count(" stub toy seed 7")) == (0, 2)
    code, text = nf("rerun", "test_toy.adds_one-stub-toy-s7")
    assert (code, "1 passed, 0 failed" in text) == (0, True), text
    page = (project.folder / "build/report/index.html").read_text(encoding="utf-8")
    assert "stub 1.0" in page


def test_it_is_listed_and_chosen_beside_the_others(nf: Callable[..., tuple[int, str]]) -> None:
    assert "stub               1.0" in nf("doctor")[1]
    code, text = nf("run", "test_toy::adds_one", "--dry-run", "--sim", registry.ALL)
    assert (code, "test_toy::adds_one stub toy seed 1" in text) == (0, True), text
    assert "invalid choice: 'stubs' (choose from" in nf("run", "x", "--sim", "stubs")[1]


def test_its_build_fails_in_one_line(nf: Callable[..., tuple[int, str]]) -> None:
    code, text = nf("run", "test_toy::adds_one", "--sim", "stub", "--build", "broken")
    assert (code, "build: toy.sv:1: error: no such word as asign" in text) == (1, True), text


def test_an_unknown_name_is_one_line() -> None:
    with pytest.raises(NfError, match=r"unknown simulator 'x'; there are: verilator, icarus\."):
        registry.choose("x")


# The two backends; what links the C++ host of bulk replay with each; and
# the night, whose million flits are for the faster one.
OWN = {
    *("verilator.py", "icarus.py", "registry.py", "bulk_build.py"),
    "test.py",  # of the night
    "cosimulation.py",  # MyHDL's, which has a VPI module for one of them
}
NAMED = re.compile(r"verilator|icarus|iverilog|vvp", re.IGNORECASE)


def mentions(source: str) -> list[str]:
    """Return the simulators that Python code names: whole strings, names and attributes; not
    prose."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [node.value] if NAMED.fullmatch(node.value) else []
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            found += [name] if NAMED.search(name) else []
    return found


def test_no_other_file_names_a_simulator() -> None:
    files = [
        path
        for path in sorted((ROOT / "scripts").rglob("*.py"))
        if path.name not in OWN and not path.name.startswith(("test_", "conftest"))
    ]
    assert len(files) > 80
    found = {path.name: names for path in files if (names := mentions(path.read_text("utf-8")))}
    assert found == {}


def test_a_named_simulator_is_seen() -> None:
    assert mentions('"""Verilator is fine."""\nif sim == "icarus": toolchain.find_verilator()') == [
        "icarus",
        "find_verilator",
    ]
