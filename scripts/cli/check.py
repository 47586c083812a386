# SPDX-License-Identifier: Apache-2.0
"""`nf check`: format, lint and types of Python, generated files, layers, testplan, mutants."""

from __future__ import annotations

import argparse
import sys

from scripts.build import toolchain
from scripts.checks import layers, pins, text_files
from scripts.cli.steps import Steps, command
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.plan import mutants, testplan
from scripts.plan.discover import discover
from scripts.record.report import functional

PACKAGES = ("cocotbext", "neuron_fabric", "models", "verif", "scripts", "examples")

EXAMPLES = """examples:
  nf check                                   what pre-commit runs
  nf check --fix                             format, and mend what can be mended
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fix", action="store_true", help="let ruff format and mend what it can")


def run(args: argparse.Namespace) -> int:
    ruff = toolchain.in_venv("ruff") or "ruff"
    folders = [*(name for name in PACKAGES if (ROOT / name).is_dir()), "conftest.py"]
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
    steps.run("imports keep the layers", lambda: layers.violations(ROOT))
    steps.run("licence lines", lambda: layers.missing_licence(ROOT))
    steps.run("pipeline is the copy of its source", _pipeline)
    steps.run("lock files hold the pins", _pins)
    steps.run(
        "text has an encoding",
        lambda: text_files.violations(ROOT, [*layers.python_files(ROOT), ROOT / "conftest.py"]),
    )
    steps.run("testplan", plan_problems)
    steps.run("mutants", _mutants)
    steps.run("coverage waivers", _waivers)
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
