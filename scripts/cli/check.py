# SPDX-License-Identifier: Apache-2.0
"""`nf check`: format, lint and types of Python, generated files and tables, import directions,
names and links of documents, testplan, mutants."""

from __future__ import annotations

import argparse
import sys

from scripts.checks import (
    base_names,
    doc_links,
    env_table,
    file_length,
    generated_tables,
    header_words,
    import_directions,
    pins,
    text_files,
    tree,
)
from scripts.cli.steps import Steps, command
from scripts.common import toolchain
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.plan import mutants, testplan
from scripts.plan.discover import discover
from scripts.report import functional

EXAMPLES = """examples:
  nf check                                   what pre-commit runs
  nf check --fix                             format, write generated tables, mend what can be
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fix", action="store_true", help="format, write the generated tables, mend what ruff can"
    )


def run(args: argparse.Namespace) -> int:
    ruff = toolchain.in_venv("ruff") or "ruff"
    folders = [*(name for name in tree.PACKAGES if (ROOT / name).is_dir()), "conftest.py"]
    steps = Steps("nf check")
    if args.fix:
        command([ruff, "check", "--quiet", "--fix", *folders])
        command([ruff, "format", "--quiet", *folders])
    steps.run("ruff format", lambda: command([ruff, "format", "--check", *folders]))
    steps.run("ruff check", lambda: command([ruff, "check", "--output-format=concise", *folders]))
    steps.run("mypy", lambda: command([sys.executable, "-m", "mypy", "--no-error-summary"]))
    steps.run(
        "registers are generated",
        lambda: command([sys.executable, "-m", "verif.regs.generate", "--check"]),
    )
    steps.run("imports run one way", lambda: import_directions.violations(ROOT))
    steps.run("imports form no circle", lambda: import_directions.circles(ROOT))
    steps.run("licence lines", lambda: import_directions.missing_licence(ROOT))
    steps.run("pipeline is the copy of its source", _pipeline)
    steps.run("lock files hold the pins", _pins)
    steps.run("every pin is used", _unused)
    steps.run(
        "text has an encoding",
        lambda: text_files.violations(ROOT, tree.files(ROOT, ".py")),
    )
    steps.run("files have at most 400 lines", lambda: file_length.violations(ROOT))
    steps.run("module names are unique", lambda: base_names.violations(ROOT))
    steps.run("RTL headers name what is there", lambda: header_words.violations(ROOT))
    steps.run("links, paths and modules exist", lambda: doc_links.violations(ROOT))
    steps.run("environment variables are documented", lambda: env_table.violations(ROOT))
    steps.run("testplan", plan_problems)
    steps.run("mutants", _mutants)
    steps.run("coverage waivers", _waivers)
    steps.run("tables are generated", lambda: generated_tables.violations(ROOT, args.fix))
    return steps.close()


def _pipeline() -> list[str]:
    source, copy = ROOT / "ci" / "github.yml", ROOT / ".github" / "workflows" / "ci.yml"
    if copy.is_file() and source.read_text(encoding="utf-8") == copy.read_text(encoding="utf-8"):
        return []
    return ["ci/github.yml and .github/workflows/ci.yml differ: copy the first over the second"]


def _pins() -> list[str]:
    try:
        return pins.problems()
    except NfError as error:
        return [str(error)]


def _unused() -> list[str]:
    try:
        return pins.unused(ROOT, tree.files(ROOT, ".py"))
    except NfError as error:
        return [str(error)]


def plan_problems() -> list[str]:
    """Tests without an entry in the testplan, entries without a test, and mistakes in its files."""
    try:
        return testplan.problems(testplan.read(), discover())
    except NfError as error:
        return [str(error)]


def _mutants() -> list[str]:
    try:
        return mutants.problems(mutants.read(), testplan.read(), discover())
    except NfError as error:
        return [str(error)]


def _waivers() -> list[str]:
    try:
        return functional.problems(functional.read_waivers(), functional.planned())
    except NfError as error:
        return [str(error)]
