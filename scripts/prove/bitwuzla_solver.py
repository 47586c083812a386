# SPDX-License-Identifier: Apache-2.0
"""Questions in SMT-LIB to bitwuzla, the solver for heavy arithmetic."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.common.budget import Budget
from scripts.common.errors import NfError
from scripts.common.paths import shown
from scripts.common.process import Finished

_PROGRAM = """
import sys
import bitwuzla
options = bitwuzla.Options()
options.set(bitwuzla.Option.PRODUCE_MODELS, True)
parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
parser.parse(sys.argv[1], False, True)
"""


LOG = "bitwuzla.log"


def ask(text: str, folder: Path, budget: Budget) -> tuple[bool | None, str]:
    """Ask whether an SMT-LIB question can be satisfied.

    Args:
        text: The question, with `check-sat` and perhaps `get-value`.
        folder: Folder for the question and the log.
        budget: Processor time.

    Returns:
        True, False, or None if time ran out; and the values of `get-value` as text.

    Raises:
        NfError: The output of the solver is not understood.
    """
    done, answer = _solve(text, folder / "question.smt2", folder / LOG, budget)
    said, *values = answer or [""]
    if done.timed_out:
        return None, ""
    if said not in ("sat", "unsat"):
        raise _unclear(answer, folder / LOG)
    return said == "sat", " ".join(values)


def answers(text: str, cases: Sequence[str], folder: Path, budget: Budget) -> list[str]:
    """Ask one question under each of several additional assumptions, in one solver process.

    Args:
        text: The question, without `check-sat`.
        cases: The assumptions, as SMT-LIB terms.
        folder: Folder for the question and the log.
        budget: Processor time.

    Returns:
        "sat" or "unsat" by case, in order; fewer than cases if time runs out.
    """
    log = folder / "cases.log"
    asked = [f"(push 1)\n(assert {case})\n(check-sat)\n(pop 1)\n" for case in cases]
    done, said = _solve(text + "".join(asked), folder / "cases.smt2", log, budget)
    if set(said) - {"sat", "unsat"} or (len(said) != len(cases) and not done.timed_out):
        raise _unclear(said, log)
    return said


def _solve(text: str, question: Path, log: Path, budget: Budget) -> tuple[Finished, list[str]]:
    """Run the solver on a question; return the end of the process, and the printed words."""
    question.write_text(text, encoding="utf-8")
    done = budget.run([sys.executable, "-c", _PROGRAM, str(question)], log)
    return done, log.read_text(errors="replace", encoding="utf-8").split()


def _unclear(said: Sequence[str], log: Path) -> NfError:
    return NfError(f"bitwuzla: {' '.join(said)[:300]} (log {shown(log)})")
