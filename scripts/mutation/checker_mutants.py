# SPDX-License-Identifier: Apache-2.0
"""Mutants of the checkers and of the sampling of coverage, made from their Python sources.

The pytest cases of these packages judge them, on Icarus where they need a simulator. These cases
are the negative twins: a mutant that survives is a rule or a bin without one.
"""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Iterator, Mapping, Sequence

from neuron_fabric.errors import say
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT, shown
from scripts.mutation import package_run
from scripts.mutation.package_run import Judged
from scripts.mutation.source_mutant import Part, SourceMutant, numbered

RUNS = BUILD / "mutants-checkers"
TIMEOUT_S = 120.0  # see `scripts/common/cpu_time.py`; all cases together need 60
CASES = {
    "verif": (
        *("verif/recorded", "verif/scoreboard", "verif/coverage", "verif/mem"),
        "scripts/run/test_verdict.py",
    ),
    "cocotbext": ("cocotbext/cxl/wire", "cocotbext/cxl/link", "cocotbext/cxl/tests"),
}
"""Cases that judge the mutants of a package: those next to its source, then these in order."""
_NO_CHECKERS = (
    *("test_", "/tests/", "conftest.py", "__init__.py", "setup.py", "/example/", "_bench.py"),
    "stub",
)
_REPORTS = ("error", "_error", "report", "_forbidden")
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_EVENTS = (
    *(("before", "after"), ("first", "last"), ("low", "high"), ("m2s", "s2m")),
    *(("plain", "data"), ("start", "end")),
)
_NEIGHBOUR = dict([*_EVENTS, *(pair[::-1] for pair in _EVENTS)])


def sources() -> dict[str, str]:
    """Return the sources of the checkers by path: the bytes of each file, one character each."""
    found = [
        path for at in (*CASES["verif"], "cocotbext/cxl") for path in (ROOT / at).rglob("*.py")
    ]
    names = [path.relative_to(ROOT).as_posix() for path in sorted(found)]
    return {
        name: (ROOT / name).read_bytes().decode("latin-1")
        for name in names
        if not any(word in name for word in _NO_CHECKERS)
    }


def find(texts: Mapping[str, str]) -> list[SourceMutant]:
    """Return all mutants of Python sources, sorted by place."""
    found = [mutant for file, text in texts.items() for mutant in _Finder(file, text).all()]
    return numbered(found, dict(texts), "\n")


def reports(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements that report a finding: the rules of a checker.

    Each calls a method that records findings, or returns a text from a function with the result
    `str | None`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func)
            if called.rpartition(".")[2] in _REPORTS or called.endswith("errors.append"):
                yield node
        result = node.returns if isinstance(node, ast.FunctionDef) else None
        for one in ast.walk(node) if result and ast.unparse(result) == "str | None" else ():
            if isinstance(one, ast.Return) and isinstance(one.value, ast.JoinedStr):
                yield one


class _Finder:
    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._tree = ast.parse(text.encode("latin-1"))
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._reports = {id(one) for one in reports(self._tree)}
        self._names = {one.attr for one in ast.walk(self._tree) if isinstance(one, ast.Attribute)}
        self._found: list[SourceMutant] = []

    def all(self) -> list[SourceMutant]:
        self._visit(self._tree)
        return self._found

    def _add(self, operator: str, node: ast.stmt | ast.expr, new: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        folder = self._file.rpartition("/")[0]
        part = Part(start, end, new, isinstance(node, ast.stmt))
        self._found.append(SourceMutant("", self._file, folder, operator, node.lineno, (part,)))

    def _changed(self, operator: str, node: ast.stmt | ast.expr, **fields: object) -> None:
        """Add the mutant with other values in fields of a node of the tree."""
        new = copy.copy(node)
        for name, value in fields.items():
            setattr(new, name, value)
        text = ast.unparse(new)
        self._add(operator, node, text if isinstance(node, ast.stmt) else f"({text})")

    def _visit(self, node: ast.AST) -> None:
        """Add the mutants of a node and its parts, without texts, types, defaults, assertions."""
        if isinstance(node, ast.JoinedStr | ast.arguments | ast.AnnAssign | ast.Assert | ast.Raise):
            return
        if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: an assertion, too
            return
        if isinstance(node, ast.stmt):
            self._statement(node)
        elif isinstance(node, ast.expr):
            self._expression(node)
        if id(node) in self._reports:  # the rest of it is the text
            return
        for name, value in ast.iter_fields(node):
            if name not in ("returns", "decorator_list", "bases"):
                for one in value if isinstance(value, list) else [value]:
                    if isinstance(one, ast.AST):
                        self._visit(one)

    def _statement(self, node: ast.stmt) -> None:
        if id(node) in self._reports:
            self._add("report", node, "return None" if isinstance(node, ast.Return) else "pass")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._add("call", node, "pass")
        elif isinstance(node, ast.AugAssign):
            self._add("assignment", node, "pass")
            if type(node.op) in _COMPUTED:
                self._changed("arithmetic", node, op=_COMPUTED[type(node.op)]())
        elif isinstance(node, ast.If | ast.While):
            self._add("condition", node.test, f"(not ({ast.unparse(node.test)}))")

    def _expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.Compare):
            for at, op in enumerate(node.ops):
                ops = [*node.ops[:at], _COMPARED[type(op)](), *node.ops[at + 1 :]]
                self._changed("relational", node, ops=ops)
        elif isinstance(node, ast.BoolOp):
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            self._changed("logical", node, op=other)
            for at in range(len(node.values)):
                self._changed("logical", node, values=[*node.values[:at], *node.values[at + 1 :]])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._add("logical", node, f"({ast.unparse(node.operand)})")
        elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
            self._changed("arithmetic", node, op=_COMPUTED[type(node.op)]())
        elif isinstance(node, ast.IfExp):
            self._changed("ternary", node, body=node.orelse, orelse=node.body)
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            new = not node.value if isinstance(node.value, bool) else node.value + 1
            self._changed("constant", node, value=new)
        elif isinstance(node, ast.Attribute) and _NEIGHBOUR.get(node.attr) in self._names:
            self._changed("event", node, attr=_NEIGHBOUR[node.attr])
        if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
            for test in (one for part in node.generators for one in part.ifs):
                self._add("condition", test, "True")


def run(chosen: Sequence[SourceMutant], texts: Mapping[str, str], jobs: int, floor: float) -> int:
    """Run the cases of the checkers on each mutant; print the survivors and the score.

    Args:
        chosen: Mutants of the sources `texts`.
        texts: Sources by path.
        jobs: Number of mutants tested in parallel.
        floor: Least percentage of mutants that must be killed.

    Returns:
        Exit code: 0 if so many are killed.

    Raises:
        NfError: A case fails without a mutant.
    """
    begin = time.monotonic()
    folder = package_run.own_folder(RUNS)
    for name in dict.fromkeys(one.file.partition("/")[0] for one in chosen):
        done, _ = package_run.pytest(folder / "base", {}, cases(name), 4 * TIMEOUT_S)
        if done.returncode:
            raise NfError(f"cases fail without a mutant; log: {shown(folder / 'base.log')}.")

    def one(mutant: SourceMutant) -> list[Judged[SourceMutant]]:
        text = mutant.mutated(texts[mutant.file]).encode("latin-1").decode()
        place = folder / mutant.id.replace(".", "-")
        done, said = package_run.pytest(place, {mutant.file: text}, cases(mutant.module), TIMEOUT_S)
        how = "time limit" if done.timed_out else package_run.first_failure(said)
        return [Judged(mutant, "", done.returncode != 0, how, place.with_suffix(".log"))]

    def line(found: Judged[SourceMutant]) -> str:
        word = "killed" if found.caught else "SURVIVED"
        return f"{word:8} {found.mutant.id:44} {found.how[:90]}"

    judged = package_run.judge_each(chosen, jobs, one, line)
    alive = sorted((found.mutant for found in judged if not found.caught), key=lambda m: m.file)
    for mutant in alive:
        say(f"survived {mutant.file}:{mutant.line}", mutant.diff(texts[mutant.file]))
        say(f"  again: .venv/bin/nf mutate --part checkers --id {mutant.id}")
    share = 100 * (1 - len(alive) / len(judged))
    say(
        f"nf mutate: {len(judged) - len(alive)} of {len(judged)} mutants of the checkers killed, "
        f"{share:.1f} %; at least {floor:g} % must be ({time.monotonic() - begin:.1f} s)"
    )
    return int(share < floor)


def cases(folder: str) -> list[str]:
    """Return the words for pytest: the cases of the package of a folder, its own first."""
    found = CASES[folder.partition("/")[0]]
    words = ["-x", "-k", "not verilator", "-m", "not nightly and not fuzz"]
    return [*words, *sorted(found, key=lambda one: one not in (folder, f"{folder}/tests"))]
