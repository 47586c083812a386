# SPDX-License-Identifier: Apache-2.0
"""Questions about the clocks of a model to bitwuzla, with all clocks unrolled into one formula.

For large models one search, with everything that it can simplify, is faster than many small ones.
The terms have the meaning of yosys-smtbmc.
"""

from __future__ import annotations

from pathlib import Path

from scripts.common.budget import Budget
from scripts.common.errors import NfError
from scripts.prove import bitwuzla_solver
from scripts.prove.model import Model
from scripts.prove.smtbmc import Answer

_HEAD = "(set-logic QF_UFBV)\n"


def ask(model: Model, what: str, depth: int, budget: Budget) -> Answer:
    """Ask one question of `smtbmc.QUESTIONS` about ``depth`` clocks of a model.

    The answer has no waves and no witness.
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
    found, _ = bitwuzla_solver.ask(f"{_HEAD}{text}(check-sat)\n", folder, budget)
    return Answer(None if found is None else not found, folder / bitwuzla_solver.LOG)


def _cover(model: Model, depth: int, folder: Path, budget: Budget) -> Answer:
    cases = [
        "(or false " + " ".join(f"(|{model.top}_c {n}| s{i})" for i in range(depth)) + ")"
        for n in range(len(model.covers))
    ]
    text = _HEAD + _runs(model, depth, reset=True)
    said = bitwuzla_solver.answers(text, cases, folder, budget)
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
