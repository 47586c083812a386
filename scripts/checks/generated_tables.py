# SPDX-License-Identifier: Apache-2.0
"""Markdown tables generated from the sources: `nf check` compares, `nf check --fix` writes.

A table stands between `<!-- generated: NAME [ARGUMENT] -->` and `<!-- end -->`; NAME is a key of
`TABLES`, ARGUMENT a folder. The text of a row comes from the source itself: the first sentence of a
docstring or of an RTL header, the comment of a parameter, an entry of the testplan.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from neuron_fabric import output
from scripts.checks import (
    requirements,
    simulator_versions,
    traceability,
    tracked_files,
    tutorials,
)
from scripts.common import data
from scripts.common.errors import NfError
from scripts.common.paths import WORKFLOW
from scripts.coverage import functional_coverage
from scripts.plan import listed_mutants, package_mutants, testplan
from scripts.plan.discover import discover
from scripts.prove import proof

_MARKED = re.compile(
    r"^(?P<head><!-- generated: (?P<name>[\w-]+) ?(?P<argument>\S*) -->\n)"
    r"(?P<body>.*?)(?=<!-- end -->)",
    re.DOTALL | re.MULTILINE,
)
_HEAD = re.compile(r"^<!-- generated: ", re.MULTILINE)
_PARAMETER = re.compile(r"^ +parameter int (\w+) += (\d+),? +// (.+?): (.+)$", re.MULTILINE)
_SENTENCE = re.compile(r".*?[.?](?=\s|$)|.*")


def violations(root: Path, fix: bool = False) -> list[str]:
    """Return an error line for each generated table that differs from its sources.

    With `fix` the tables are written instead.
    """
    out: list[str] = []
    for path in tracked_files.files(root, ".md"):
        text, where = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        if len(_HEAD.findall(text)) != len(_MARKED.findall(text)):
            out.append(f"{where}: a generated table without its `<!-- end -->`")
            continue
        try:
            made = _MARKED.sub(lambda found: found["head"] + _table(root, found), text)
        except NfError as error:
            out.append(f"{where}: {error}")
            continue
        if made != text and fix:
            output.write_text(path, made)
        elif made != text:
            names = [
                old["name"] for old in _MARKED.finditer(text) if _table(root, old) != old["body"]
            ]
            out.append(f"{where}: stale table {', '.join(names)}: run `nf check --fix`")
    return out


def _table(root: Path, found: re.Match[str]) -> str:
    """Return the Markdown of a table. Raise NfError for an unknown name. A `|` in a cell is
    escaped."""
    make = TABLES.get(found["name"])
    if make is None:
        raise NfError(f"no table {found['name']!r}; there are {', '.join(TABLES)}.")
    rows = [
        tuple(cell.replace("|", "\\|") for cell in row) for row in make(root, found["argument"])
    ]
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *body, ""])


Rows = Iterable[tuple[str, ...]]


def _mutants(root: Path, _: str) -> Rows:
    """Yield the files of listed RTL mutants, with the mutants that no test catches."""
    yield "file", "what it breaks", "mutants", "caught by nothing"
    for path in sorted((root / "verif" / "mutants").glob("*.yaml")):
        listed = listed_mutants.read(path)
        alive = ", ".join(f"`{mutant.id}`" for mutant in listed if mutant.survives)
        yield f"`{path.name}`", header_sentence(path, "# "), str(len(listed)), alive


def _package_mutants(root: Path, _: str) -> Rows:
    """Yield the files of listed mutants of the Python packages."""
    yield "file", "what it breaks", "mutants"
    for path in sorted((root / "verif" / "mutants" / "package").glob("*.yaml")):
        yield f"`{path.name}`", header_sentence(path, "# "), str(len(package_mutants.read(path)))


def header_sentence(path: Path, mark: str = "//") -> str:
    """Return the first sentence of the comment after the licence line of a file.

    `mark` is the start of a comment line.
    """
    lines = path.read_text(encoding="utf-8").splitlines()[1:15]
    return _first(
        " ".join(line.removeprefix(mark).strip() for line in lines if line.startswith(mark))
    )


def _rtl(root: Path, _: str) -> Rows:
    """Yield rows of RTL modules and packages by folder, with the first sentences of headers."""
    yield "folder", "module", "what it is"
    before = root / "hdl"
    files = [
        path for path in tracked_files.files(root, ".sv", ".svh") if path.is_relative_to(before)
    ]
    files = [path for path in files if path.parent.name != "formal"]  # no part of the design
    for path in sorted(files, key=lambda path: (path.parent, path)):
        folder = "" if path.parent == before else f"`{path.parent.name}/`"
        before = path.parent
        yield folder, f"`{path.stem if path.suffix == '.sv' else path.name}`", header_sentence(path)


def _first(text: str) -> str:
    """Return the first sentence of a text on one line, without its full stop."""
    found = _SENTENCE.match(re.sub(r"\s+", " ", text.strip()).replace("``", "`"))
    return found[0].rstrip(".:") if found else ""


def _proofs(root: Path, _: str) -> Rows:
    """Yield rows of the proofs of the RTL, with method, purpose and number of mutants."""
    yield "proof", "sets of parameters", "how", "what", "mutants"
    proofs, broken = proof.read(), [mutant.proof.partition("/")[0] for mutant in proof.mutants()]
    for name in dict.fromkeys(one.name for one in proofs):
        sets = [one for one in proofs if one.name == name]
        yield (
            f"`{name}`",
            ", ".join(one.id.partition("/")[2] for one in sets if "/" in one.id),
            sets[0].how,
            sets[0].why,
            str(broken.count(name)),
        )


def _parameters(root: Path, _: str) -> Rows:
    """Yield the parameters of the controller from their comments `// range: meaning`."""
    yield "parameter", "default", "range", "what it sets"
    for name, value, span, what in controller_parameters(root):
        yield f"`{name}`", value, span, what


def controller_parameters(root: Path) -> list[tuple[str, str, str, str]]:
    """Return name, default, range and meaning of each parameter of the controller."""
    return _PARAMETER.findall((root / "hdl" / "nf_controller.sv").read_text(encoding="utf-8"))


def _modules(root: Path, folder: str) -> Rows:
    """Yield rows of the Python modules and packages of a folder, without tests.

    A row has the first sentence of the docstring. NfError is raised for a module without one.
    """
    yield "file", "what it is"
    if not (root / folder).is_dir():
        raise NfError(f"there is no folder {folder}.")
    for path in sorted((root / folder).iterdir()):
        source = path / "__init__.py" if path.is_dir() else path
        if source.suffix != ".py" or not source.is_file() or tracked_files.is_test(path):
            continue
        doc = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
        if doc is None and source.name != "__init__.py":
            raise NfError(f"{source.relative_to(root).as_posix()} has no docstring.")
        if doc is not None and path.name != "__init__.py":
            yield f"`{path.name}/`" if path.is_dir() else f"`{path.name}`", _first(doc)


def _suites(root: Path, _: str) -> Rows:
    """Yield the suites of the testplan, with the number of their tests and seeds."""
    yield "suite", "tests", "seeds", "why"
    plan, tests = testplan.read(root / "verif" / "testplan"), discover(root / "verif" / "tests")
    for suite in plan.suites.values():
        count = len(testplan.of_suite(plan, suite, tests))
        yield f"`{suite.name}`", str(count), str(suite.seeds), suite.reason


def _coverage(root: Path, _: str) -> Rows:
    """Yield the cover points, with the number of bins and the test that is meant to hit them."""
    yield "point", "what a hole would leave untested", "bins", "hits wanted", "test"
    for point in functional_coverage.planned().points.values():
        wanted = (str(len(point.bins)), str(point.at_least))
        yield point.name, point.reason, *wanted, f"`{point.test}`"


_ROUTES = {
    "G_BINARY": "vote",
    "G_TERNARY": "vote",
    "G_TERN5": "vote",
    "G_INT4": "SUM8",
    "G_INT8": "SUM16",
}


def _bytes(root: Path, network: str) -> Rows:
    """Yield rows with the bytes that each route sends for a network, in percent of those of FP32.

    The figures are the accepted ones of `scripts/figures/baseline.json`.
    """
    yield "route", "a worker's result", "bytes up, % of FP32", "bytes both ways, % of FP32"
    file = root / "scripts" / "figures" / "baseline.json"
    known = data.load_json(file, dict[str, dict[str, float]])["traffic"]
    for route, view in _ROUTES.items():
        [up] = _of(known, network, f", {route}, ", "one-way (up)")
        [both] = _of(known, network, f", {route} {view}, ", "both ways")
        yield route, view, f"{up:.2f}", f"{both:.2f}"


def _of(known: Mapping[str, float], network: str, *words: str) -> list[float]:
    """Return the traffic figures of a network whose names contain all `words`."""
    name = f"{network} (CIFAR stem, 10 classes)"
    return [
        x for what, x in known.items() if what.startswith(name) and all(w in what for w in words)
    ]


def _evidence(root: Path, _: str) -> Rows:
    """Yield rows that count tests, bins, proofs and mutants: the evidence that supports a pass."""
    yield "evidence", "number", "command"
    plan = testplan.read(root / "verif" / "testplan")
    points = functional_coverage.planned().points.values()
    caught = [one for one in listed_mutants.read() if not one.survives]
    yield "tests of the RTL in the testplan", str(len(plan.entries)), "`nf list`"
    yield "bins of functional coverage", str(sum(len(one.bins) for one in points)), "`nf cov`"
    proofs = proof.read()
    yield "proofs of RTL blocks, by parameters", str(len(proofs)), "`nf prove`"
    yield "mutants that must break a proof", str(len(proof.mutants())), "`nf prove --mutants`"
    yield "mutants of the RTL that a named test must catch", str(len(caught)), "`nf mutate`"
    rows = list(traceability.rows(root))[1:]
    yield "things that the device shows, each with its checkers", str(len(rows)), "`nf check`"


def _systems(root: Path, _: str) -> Rows:
    """Containers of the pipeline, each with its Python."""
    yield "system", "Python"
    text = (root / WORKFLOW).read_text(encoding="utf-8")
    yield from re.findall(r'\{image: "(\S+)", python: "(\S+)"\}', text)


def _versions(root: Path, _: str) -> Rows:
    """Yield the versions of Verilator that the pipeline runs, with the tests of each."""
    yield "version of Verilator", "what runs with it"
    pin = requirements.read(root / "requirements.txt")[0][simulator_versions.PACKAGE]
    yield pin.version, "everything: set-up installs it"
    tests = ", ".join(f"`{name}`" for name in simulator_versions.TESTS)
    for version in simulator_versions.VERSIONS:
        yield version, f"each night {tests} on the build `{simulator_versions.BUILD}`"


def _pins(root: Path, file: str) -> Rows:
    """Packages of a list, each with its pin, its condition and its reason."""
    yield "package", "version", "only where", "use"
    for pin in requirements.read(root / file)[0].values():
        why = pin.why.removeprefix("not imported: ")
        yield pin.name, pin.version, pin.marker and f"`{pin.marker}`", why


def _tutorials(root: Path, folder: str) -> Rows:
    """Pages of a folder, each with its number of commands and their processor time.

    The last column adds `apt-get`, `git clone`, `cd`, `make setup` and, with PyTorch, `make torch`.
    """
    yield "page", "files to write", "commands", "processor time", "commands from nothing"
    for page in (one for one in tutorials.pages(root) if one.parent == root / folder):
        text, steps = page.read_text(encoding="utf-8"), tutorials.steps_of(page)
        link = f"[{text.splitlines()[0].removeprefix('# ')}](../{page.parent.name}/{page.name})"
        files = sum(one.writes for one in steps)
        used = sum(map(int, re.findall(r"^\$ .* # (\d+) s$", text, re.MULTILINE)))
        own = len(steps) - files
        yield link, str(files), str(own), f"{used} s", str(own + 4 + ("import torch" in text))


TABLES: dict[str, Callable[[Path, str], Rows]] = {
    "mutants": _mutants,
    "package-mutants": _package_mutants,
    "rtl": _rtl,
    "parameters": _parameters,
    "proofs": _proofs,
    "modules": _modules,
    "suites": _suites,
    "coverage": _coverage,
    "bytes": _bytes,
    "evidence": _evidence,
    "systems": _systems,
    "versions": _versions,
    "pins": _pins,
    "tutorials": _tutorials,
    "audit": lambda root, _: traceability.rows(root),
}
