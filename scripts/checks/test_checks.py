# SPDX-License-Identifier: Apache-2.0
"""Tests that each check of `nf check` finds its faults, and none in a correct tree."""

from __future__ import annotations

import argparse
import copy
import re
import shutil
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from grimp import ImportGraph

from scripts.checks import (
    core_file,
    doc_links,
    file_rules,
    generated_tables,
    rtl_style,
    tracked_files,
)
from scripts.checks.import_contracts import NoCircles, SourceLayers, circles
from scripts.cli import check
from scripts.common.paths import ROOT
from scripts.conftest import git_by_somebody

TOOLS = ("ruff format", "ruff check", "mypy")

RTL = """// SPDX-License-Identifier: Apache-2.0
// A toy. `go` starts it; `*_room` and `out_*` are held; see `nf_other`. `python -m a.b` makes it.
module nf_toy(input wire logic go, evict_room, output logic out_valid);
  // `gone` in a comment of the code is nobody's handshake
endmodule
"""


def _write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_header_words(tmp_path: Path) -> None:
    _write(tmp_path, "hdl/nf_other.sv", "module nf_other; endmodule\n")
    _write(tmp_path, "hdl/nf_toy.sv", RTL)
    assert rtl_style.header_words(tmp_path) == []
    _write(tmp_path, "hdl/nf_toy.sv", RTL.replace("`go`", "`start`").replace("`out_*`", "`in_*`"))
    found = rtl_style.header_words(tmp_path)
    assert [line.partition(":")[0] for line in found] == ["hdl/nf_toy.sv"] * 2
    assert "`start`" in found[0]
    assert "`in_*`" in found[1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "      - nf_core.sv\n",
            "",
            "rtl / files is not that of hdl/nf_controller.f: nf_core.sv is",
        ),
        ("- nf_core.sv\n", "- nf_core.sv\n      - x.sv\n", "x.sv is foreign"),
        ("- pkg/nf_pkg.sv\n", "- pkg/nf_pkg.sv\n      - pkg/nf_pkg.sv\n", "an entry twice"),
        ("- lint/nf_core.vlt\n", "- lint/x.vlt\n", "lint/nf_core.vlt is missing"),
        ("default: 20\n", "default: 21\n", "parameters is not that of nf_controller: "),
        (
            "targets:",
            "target:",
            "targets / lint / parameters is not that of nf_controller: no list",
        ),
    ],
)
def test_core_file(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert core_file.problems(ROOT) == []
    text = (ROOT / core_file.CORE).read_text(encoding="utf-8")
    shutil.copytree(ROOT / "hdl", tmp_path / "hdl")
    _write(tmp_path, core_file.CORE, text.replace(old, new))
    assert said in "\n".join(core_file.problems(tmp_path))


def test_licence_lines(tmp_path: Path) -> None:
    _write(tmp_path, "scripts/a.py", f"# {file_rules.LICENCE}\n")
    assert file_rules.without_licence(tmp_path) == []
    _write(tmp_path, "hdl/b.sv", "module b; endmodule\n")
    (line,) = file_rules.without_licence(tmp_path)
    assert line.startswith("hdl/b.sv: no line ")


def _graph(*imports: str) -> ImportGraph:
    """Return a graph of imports, each written as "importer imported"."""
    graph = ImportGraph()
    for package in ("examples", "scripts", "verif", "models", "neuron_fabric", "cocotbext.cxl"):
        graph.add_module(package)
    for one in imports:
        importer, imported = one.split()
        for module in (importer, imported):
            graph.add_module(module.rpartition(".")[0])
        graph.add_import(importer=importer, imported=imported)
    return graph


def _broken(graph: ImportGraph) -> list[str]:
    """Return the names of the contracts of pyproject.toml that a graph of imports breaks."""
    types = {"source_layers": SourceLayers, "no_circles": NoCircles}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = []
    for options in settings["tool"]["importlinter"]["contracts"]:
        # Layers need not exist in a small graph: "(a) : (b)".
        layers = options.get("layers", [])
        rest = (
            {**options, "layers": [re.sub(r"[\w.]+", r"(\g<0>)", one) for one in layers]}
            if layers
            else options
        )
        words = {key: value for key, value in rest.items() if key not in ("name", "type")}
        contract = types[options["type"]](options["name"], settings["tool"]["importlinter"], words)
        if not contract.check(copy.deepcopy(graph), False).kept:
            found.append(options["name"])
    return found


@pytest.mark.parametrize(
    ("importer", "imported", "broken"),
    [
        ("models.a", "verif.env.b", "examples use"),
        ("cocotbext.cxl.host", "neuron_fabric.a", "examples use"),
        ("models.test_a", "verif.conftest", "examples use"),
        ("scripts.test_a", "examples.b", "examples use"),
        ("scripts.build.b", "scripts.run.a", "rooms of scripts"),
        ("verif.env.a", "verif.sequences.layout", "rooms of the testbench"),
        ("verif.scoreboard.a", "verif.env.env", "rooms of the testbench"),
        ("cocotbext.cxl.wire.a", "cocotbext.cxl.host", "link and wire"),
        ("verif.c", "verif.c.late", None),
        ("scripts.run.a", "scripts.build.registry", None),
        ("scripts.build.test_b", "scripts.run.a", None),
        ("verif.test_a", "scripts.run.a", None),
        ("verif.tests.a", "verif.sequences.base", None),
    ],
)
def test_contracts_of_imports(importer: str, imported: str, broken: str | None) -> None:
    found = _broken(_graph(f"{importer} {imported}"))
    assert [name.startswith(str(broken)) for name in found] == ([True] if broken else [])


def test_circles_of_imports() -> None:
    chain = ("verif.a verif.b", "verif.b verif.c", "verif.test_c verif.a")
    assert circles(_graph(*chain)) == []
    graph = _graph(*chain, "verif.c verif.a")
    assert circles(graph) == [["verif.a", "verif.b", "verif.c", "verif.a"]]
    assert circles(graph, ["verif.b"]) == []
    assert _broken(graph) == ["no circle of imports"]


def test_class_names(tmp_path: Path) -> None:
    for name in ("verif/a/x.py", "scripts/x.py", "verif/a/test_x.py"):
        _write(tmp_path, name, "class Row: ...\nclass _Own: ...\n")
    assert file_rules.same_class_names(tmp_path) == []
    _write(tmp_path, "verif/b/y.py", "class Row: ...\nclass _Own: ...\n")
    (line,) = file_rules.same_class_names(tmp_path)
    assert line.startswith("verif/a/x.py, verif/b/y.py: 2 public classes named Row: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", "see [the plan](docs/gone.md)"),
        ("README.md", "# There\n[a part](#gone)"),
        ("docs/a.md", "`gone.py` does it"),
        ("docs/a.md", "`verif/gone/`"),
        ("docs/a.md", "```\n.venv/bin/python -m verif.gone\n```"),
        ("scripts/b.py", '"""Run `verif.real.gone` first."""'),
        ("scripts/b.py", "# as models/gone/file.py says"),
        ("verif/c.yaml", "# python -m scripts.gone"),
    ],
)
def test_names_of_nothing(tmp_path: Path, name: str, text: str) -> None:
    _write(tmp_path, name, text)
    _write(tmp_path, "verif/real.py", "def there() -> None: ...\n")
    (line,) = doc_links.violations(tmp_path)
    assert line.startswith(f"{name}:")
    assert "gone" in line


def test_names_of_something(tmp_path: Path) -> None:
    _write(tmp_path, "verif/deep/real.py", "def there() -> None: ...\n")
    _write(tmp_path, "verif/test_a.py", "# verif/gone.py and `gone.py`: a test may say so\n")
    _write(
        tmp_path,
        "verif/README.md",
        "# It's there\n[a](deep/real.py) [b](#its-there) `real.py` `deep/*.py` "
        "`verif/deep` `verif.deep.real.there` "
        "`python -m verif.deep.real` [web](https://example.org/gone.md) "
        "`verif/deep/test_<name>.py`",
    )
    assert doc_links.violations(tmp_path) == []


def test_environment(tmp_path: Path) -> None:
    _write(tmp_path, "scripts/a.py", 'os.environ["NF_A"]; "NF_B=1"\n')
    _write(tmp_path, "scripts/b.sh", '[ -n "${NF_C:-}" ]\nNF_D=1 make\n')
    rows = "".join(f"| `NF_{name}` | x |\n" for name in "ABCD")
    _write(tmp_path, "docs/environment.md", rows)
    assert file_rules.undocumented_variables(tmp_path) == []
    _write(tmp_path, "docs/environment.md", rows.replace("NF_C", "NF_E"))
    new, gone = file_rules.undocumented_variables(tmp_path)
    assert new == "scripts/b.sh: NF_C is not in docs/environment.md: add a row"
    assert gone == "docs/environment.md: nothing reads NF_E: drop its row"


def test_generated_tables(tmp_path: Path) -> None:
    _write(tmp_path, "models/b.py", '"""Adds `a | b`. More."""\n')
    _write(tmp_path, "models/test_b.py", "")
    table = "<!-- generated: modules models -->\nstale\n<!-- end -->\nkept\n"
    _write(tmp_path, "models/README.md", table)
    (line,) = generated_tables.violations(tmp_path)
    assert line == "models/README.md: stale table modules: run `nf check --fix`"
    assert generated_tables.violations(tmp_path, fix=True) == []
    assert generated_tables.violations(tmp_path) == []
    text = (tmp_path / "models" / "README.md").read_text(encoding="utf-8")
    assert text == (
        "<!-- generated: modules models -->\n| file | what it is |\n|---|---|\n"
        "| `b.py` | Adds `a \\| b` |\n<!-- end -->\nkept\n"
    )


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ("nothing", "no table 'nothing'; there are "),
        ("modules models", "models/b.py has no docstring"),
        ("modules gone", "no folder gone"),
    ],
)
def test_tables_that_cannot_be_made(tmp_path: Path, mark: str, says: str) -> None:
    _write(tmp_path, "models/b.py", "")
    _write(tmp_path, "README.md", f"<!-- generated: {mark} -->\n<!-- end -->\n")
    (line,) = generated_tables.violations(tmp_path)
    assert line.startswith("README.md: ")
    assert says in line
    assert generated_tables.violations(tmp_path, fix=True) == [line]
    _write(tmp_path, "README.md", f"<!-- generated: {mark} -->\n")
    assert "without its `<!-- end -->`" in generated_tables.violations(tmp_path)[0]


def test_no_folder_of_tests_is_left_out(pytestconfig: pytest.Config) -> None:
    """Check that pytest collects all folders; by default it skips some names, such as `build`."""
    left_out = pytestconfig.getini("norecursedirs")
    paths = [path.relative_to(ROOT) for path in tracked_files.files(ROOT, ".py")]
    folders = {folder for path in paths for folder in path.parent.parts}
    assert "build" in folders
    assert [name for name in folders if any(fnmatch(name, glob) for glob in left_out)] == []


def test_rtl_tables(tmp_path: Path) -> None:
    _write(tmp_path, "hdl/engine/nf_toy.sv", RTL)
    _write(tmp_path, "hdl/nf_controller.sv", "// x\n  parameter int N = 8, // 1..9: many\n")
    tables = "".join(f"<!-- generated: {n} -->\n<!-- end -->\n" for n in ("rtl", "parameters"))
    _write(tmp_path, "hdl/README.md", tables)
    assert generated_tables.violations(tmp_path, fix=True) == []
    text = (tmp_path / "hdl" / "README.md").read_text(encoding="utf-8")
    assert "| `engine/` | `nf_toy` | A toy |" in text
    assert "| `N` | 8 | 1..9 | many |" in text


def test_checks_see_tracked_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that files that git does not track are not checked.

    These are drafts, and remains of `pip install ./neuron_fabric`.
    """
    git_by_somebody(tmp_path, "init", "-q")
    _write(tmp_path, "neuron_fabric/codec/pack.py", "# SPDX-License-Identifier: Apache-2.0\n")
    git_by_somebody(tmp_path, "add", ".")
    _write(tmp_path, "neuron_fabric/build/lib/neuron_fabric/codec/pack.py", "class Row: ...\n")
    _write(tmp_path, "neuron_fabric/neuron_fabric.egg-info/pack.py", "class Row: ...\n")
    _write(tmp_path, "scripts/draft.py", 'from verif import no\nopen("NF_X")\n"NF_DRAFT"\n')
    _write(tmp_path, "hdl/draft.sv", "module m;\t\n")
    assert tracked_files.files(tmp_path) == [tmp_path / "neuron_fabric/codec/pack.py"]
    for rule in (
        *(file_rules.without_licence, file_rules.same_class_names),
        *(
            file_rules.undocumented_variables,
            doc_links.violations,
            rtl_style.violations,
            file_rules.git_elsewhere,
        ),
    ):
        assert rule(tmp_path) == [], rule
    calls: list[str] = []

    def command(words: list[str]) -> list[str]:
        calls.extend(words)
        return []

    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "command", command)
    monkeypatch.setattr(check, "run_checks", lambda _, todo: len([todo[one]() for one in TOOLS]))
    assert check.run(argparse.Namespace(fix=False)) == len(TOOLS)
    names = [word for word in calls if word.endswith(".py")]
    assert names == ["neuron_fabric/codec/pack.py"] * len(TOOLS)


# ---- encoding of texts -------------------------------------------------------------------------
@pytest.mark.parametrize(
    "source",
    [
        "open(p)",
        "open(p, 'w')",
        "open(p, mode='r')",
        "with p.open() as f: pass",
        "p.open('a')",
        "p.read_text()",
        "p.read_text(errors='replace')",
        "p.write_text(t)",
        "run(c, text=True)",
        "Popen(c, universal_newlines=True)",
        "os.fdopen(1, 'w')",
    ],
)
def test_the_locale_would_decide(source: str) -> None:
    assert len(file_rules.lines_without_encoding(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "open(p, 'rb')",
        "open(p, encoding='utf-8')",
        "p.open('wb')",
        "p.read_text(encoding='utf-8')",
        "p.write_text(t, 'utf-8')",
        "run(c, encoding='utf-8')",
        "run(c, text=False)",
        "os.open(p, os.O_RDONLY)",
        "tarfile.open(p, 'r')",
        "model.open(folder, 3)",
        "gate.open()",
    ],
)
def test_it_would_not(source: str) -> None:
    assert file_rules.lines_without_encoding(source) == []


# ---- style of RTL ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("x" * 101, "101 columns"),
        ("\tassign a = b;", "tab"),
        ("assign a = b; ", "blank at the end"),
        ("  localparam logic [2:0] OP_VOTE = 3'd1;", "OP_VOTE belongs into an enum"),
        ("    localparam logic [0:0] ON   = 1'b1;  // a comment", "ON belongs"),
        ("  nf_chain u_chain (.a, .d ('1), .sum);", "'1 at port d is one bit under Icarus"),
    ],
)
def test_faults_of_style(line: str, says: str) -> None:
    ((number, what),) = rtl_style.faults(f"module m;\n{line}\nendmodule\n")
    assert number == 2
    assert says in what


def test_a_function_that_reads_a_signal() -> None:
    """Check that a function that reads a signal that is no argument is reported.

    The RTL once lost a write: the arguments did not change, but other inputs did.
    """
    text = """module m;
  // Both are the same in hardware.
  function automatic logic [7:0] ones(input logic hit, input pair_t p);
    logic [7:0] twice;
    twice = {WIDTH{p.low}} & 8'(index_of(hit) + 8'd2);
    for (int i = 0; i < 2; i++) twice = hit ? twice << i : DATA; /* data */
    return %s;
  endfunction
endmodule
"""
    assert not list(rtl_style.faults(text % "twice"))
    found = [(3, "function ones reads data, which is no argument of it")]
    assert list(rtl_style.faults(text % "twice | data[1]")) == found


def test_no_newline_at_the_end() -> None:
    assert list(rtl_style.faults("module m;\nendmodule")) == [(2, "no newline at the end")]


@pytest.mark.parametrize(
    "line",
    [
        "x" * 100,
        "  localparam logic [63:0] MASK = 64'h0000_00FF_0000_0001;",
        "  localparam logic [7:0] LAST = 8'(DEPTH - 1);",
        "  localparam int WIDTH = 8;",
        "// § is one column, as every character is: " + "§" * 56,
    ],
)
def test_style_that_is_allowed(line: str) -> None:
    assert not list(rtl_style.faults(f"{line}\n"))
