# SPDX-License-Identifier: Apache-2.0
"""`nf check`: static checks of Python, generated files, documents and plans.

examples:
  nf check                                   what pre-commit runs
  nf check --fix                             format, write generated tables, mend what can be
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from scripts.build.filelist import read_filelist
from scripts.checks import (
    core_file,
    doc_links,
    file_rules,
    generated_tables,
    prose,
    randomness,
    release,
    requirements,
    rtl_style,
    traceability,
    tracked_files,
)
from scripts.cli.steps import command, run_checks
from scripts.common import tool_versions
from scripts.common.arguments import add_flags
from scripts.common.paths import BUILD, ROOT, shown
from scripts.common.records import FILELIST, TOP
from scripts.coverage import code_waivers, functional_coverage
from scripts.mutation import find_mutants, mutant_outcome
from scripts.plan import listed_mutants, package_mutants, testplan
from scripts.prove import proof
from scripts.report import known_failures

LAYERS = [
    tool_versions.in_venv("lint-imports") or "lint-imports",
    "--cache-dir",
    shown(BUILD / "imports"),
]
REGISTERS = [sys.executable, "-m", "verif.regs.generate", "--check"]
DRAWINGS = [sys.executable, "-m", "scripts.drawings.draw", "--check"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option of `nf check`."""
    add_flags(parser, fix="format, write the generated tables, mend what ruff can")


def run(args: argparse.Namespace) -> int:
    """Run every check of the tree; return 1 if one finds a fault.

    With `--fix`, formatting, imports and registers are mended first; generated tables by their
    check."""
    ruff = tool_versions.in_venv("ruff") or "ruff"
    sources = tracked_files.files(ROOT, ".py")
    python = [path.relative_to(ROOT).as_posix() for path in sources]
    if args.fix:
        command([ruff, "check", "--quiet", "--fix", *python])
        command([ruff, "format", "--quiet", *python])
        command(REGISTERS[:-1])
    mypy = [sys.executable, "-m", "mypy", "--no-error-summary", "--"]
    checks: dict[str, Callable[[], list[str]]] = {
        "ruff format": partial(command, [ruff, "format", "--check", *python]),
        "ruff check": partial(command, [ruff, "check", "--output-format=concise", *python]),
        "mypy": partial(command, [*mypy, *python]),
        "registers are generated": partial(command, REGISTERS),
        "git is run in one place": partial(file_rules.git_elsewhere, ROOT),
        "imports keep the layers, without a circle": partial(command, LAYERS),
        "licence lines": partial(file_rules.without_licence, ROOT),
        "lock files hold the pins": requirements.problems,
        "packages, citation and changes have one version": partial(release.problems, ROOT),
        "every pin is used": partial(requirements.unused, ROOT, sources),
        "text has an encoding": partial(file_rules.without_encoding, ROOT, sources),
        "all that is random has a seed": partial(randomness.violations, ROOT, sources),
        "class names are unique in a top folder": partial(file_rules.same_class_names, ROOT),
        "prose is plain": partial(prose.violations, ROOT),
        "RTL headers name what is there": partial(rtl_style.header_words, ROOT),
        "core file of FuseSoC holds the design": partial(core_file.problems, ROOT),
        "links, paths and modules exist": partial(doc_links.violations, ROOT),
        "environment variables are documented": partial(file_rules.undocumented_variables, ROOT),
        "testplan": lambda: testplan.problems(testplan.read(), tracked_files.cocotb_tests(ROOT)),
        "mutants": lambda: listed_mutants.problems(
            listed_mutants.read(), testplan.read(), tracked_files.cocotb_tests(ROOT)
        ),
        "mutants of the package": lambda: package_mutants.problems(
            package_mutants.read(), [mutant.id for mutant in listed_mutants.read()]
        ),
        "proofs and their mutants": proof.problems,
        "all that the device shows is compared": lambda: traceability.problems(
            ROOT, traceability.read(ROOT), tracked_files.cocotb_tests(ROOT)
        ),
        "coverage waivers": lambda: functional_coverage.problems(
            functional_coverage.read_waivers(), functional_coverage.planned()
        ),
        "mutation waivers": _mutation_waivers,
        "waivers of code coverage": lambda: code_waivers.problems(code_waivers.read()),
        "known failures": _known_failures,
        "cover points name tests": lambda: functional_coverage.unknown_tests(
            functional_coverage.planned(), (test.id for test in tracked_files.cocotb_tests(ROOT))
        ),
        "front page and drawings": partial(command, DRAWINGS),
        "tables are generated": partial(generated_tables.violations, ROOT, args.fix),
    }
    return run_checks("nf check", checks)


def _known_failures() -> list[str]:
    """Return error lines on known failures that have expired or name no test."""
    listed, today = known_failures.read(), datetime.now(UTC).date()
    return known_failures.misfits(listed, tracked_files.cocotb_tests(ROOT), today)


def _mutation_waivers() -> list[str]:
    """Return error lines on waivers of source mutants that do not exist.

    Mutants are made from the source only if there is a waiver.
    """
    waived = mutant_outcome.read_waivers()
    if not waived:
        return []
    found, _ = find_mutants.find(ROOT, TOP, read_filelist(ROOT, FILELIST), find_mutants.shapes())
    return mutant_outcome.unmatched_waivers(waived, found)
