# SPDX-License-Identifier: Apache-2.0
"""Proof of the FP32 adder against `fp.add` of SMT-LIB, round to nearest even, with one NaN.

(Controller spec §6.) The question to the solver: do two operands exist, presented in one clock, for
which the sum in the next clock differs? `unsat` proves the property for all operands of the class:
the registers between the stages are part of the model, with any initial value.

For the MyHDL twin, a sum in 278 bits, the question is whether the two sums differ. It is asked once
for each pair of exponents, so that shifts by hundreds of positions are constants.
"""

from __future__ import annotations

import re
from pathlib import Path

from scripts.common.budget import Budget
from scripts.common.errors import NfError
from scripts.common.paths import shown
from scripts.common.records import Dut
from scripts.prove import model, solvers
from scripts.prove.proof import Proof

CLASSES = {
    "idle": "",  # no operands: the sum is zero
    "special": "(or (odd a) (odd b))",  # an infinity, a NaN or a zero among them
    "far": "(or (far a b) (far b a))",  # the smaller one is less than the last place of the larger
    "same-sign": "(= (sg a) (sg b))",
    "other-sign": "(distinct (sg a) (sg b))",
}
_CLASS = re.compile(r"(exponents|pair|far)_(\d+)_(\d+)")
"""Larger exponents, with all smaller ones; two exponents, the larger one first; larger exponents,
with all that are far below them."""
FAR = 26
"""A smaller operand that is shifted further is below the last bit of the sum."""
LARGEST = 254
"""Exponent field of a finite number."""
_VALUES = "(check-sat)\n(get-value (a b sum))\n"
# The identity `=` distinguishes +0 from -0 and treats all NaNs as one; the NaN is compared by its
# bits.
_RIGHT = "(ite (fp.isNaN exact) (= sum #x7fc00000) (= ((_ to_fp 8 24) sum) exact))"


def prove(proof: Proof, folder: Path, budget: Budget) -> tuple[str, str, str]:
    """Prove the adder for one class of operands, named after the slash of the proof's id.

    Returns:
        Name of the property; values of a counterexample, "" for none; the question that had no
        answer in time, "" for none.
    """
    name = proof.id.partition("/")[2]
    path = folder / "model.smt2"
    model.run_script(
        proof, folder, model.template("adder.ys", top=proof.top, path=shown(path)), budget
    )
    idle = name == "idle"
    both = proof.dut is Dut.BOTH
    question = model.template("adder.smt2", top=proof.top, en="false" if idle else "true")
    if both:
        question += model.template("adder_twin.smt2", top=proof.top)
    else:
        right = "(= sum #x00000000)" if idle else _RIGHT
        among = CLASSES[name] or "true"
        question += model.template("adder_exact.smt2", right=right, among=among)
    text = "(set-logic QF_BVFP)\n" + path.read_text(encoding="utf-8") + question
    prop = f"Same_{name}_A" if both else f"Sum_{name}_A"
    if both:
        cases = twin_cases(name)
        said = solvers.answers(text, cases, folder, budget)
        if "sat" not in said:
            left = cases[len(said) :]
            return prop, "", f"{prop}: {left[0]}" if left else ""
        text += f"(assert {cases[said.index('sat')]})\n"
    found, values = solvers.satisfiable(text + _VALUES, folder, budget)
    if found is None:
        return prop, "", prop
    return prop, values if found else "", ""


def twin_cases(name: str) -> list[str]:
    """Return the SMT-LIB conditions on the operands of a class, one for each solver question.

    The classes `idle`, `special`, and exponents from 1 to 254 together cover all operands.

    Raises:
        NfError: Unknown class.
    """
    if name == "idle":
        return ["true"]
    if name == "special":
        return ["(or (= (ex a) #xff) (= (ex b) #xff))"]
    pairs = _exponents(name)
    if not pairs:
        raise NfError(f"hdl/formal/proofs.yaml: no class {name!r} of operands.")
    return [f"(and {_within('a', of_a)} {_within('b', of_b)})" for of_a, of_b in pairs]


def _exponents(name: str) -> list[tuple[range, range]]:
    """Return the ranges of the exponent fields of a and b in each case of a class.

    The name of the class holds the exponents; [] for another name.
    """
    found = _CLASS.fullmatch(name)
    if found is None:
        return []
    kind, first, last = found[1], int(found[2]), int(found[3])
    if min(first, last) < 1 or max(first, last) > LARGEST:
        return []
    if kind == "pair":
        wanted = {_field(first), _field(last)}
        return [pair for pair in of_larger(first) if set(pair) == wanted]
    pairs = [(larger, pair) for larger in range(first, last + 1) for pair in of_larger(larger)]
    if kind == "far":
        return [pair for larger, pair in pairs if range(max(1, larger - FAR)) in pair]
    return [pair for _, pair in pairs]


def of_larger(exponent: int) -> list[tuple[range, range]]:
    """Return the ranges of the exponent fields of a and b whose larger exponent is `exponent`.

    Each close smaller exponent is a case, all far smaller ones together are one; a and b change
    roles. Fields 0 and 1 are one exponent.
    """
    least = max(1, exponent - FAR)
    smaller = [_field(one) for one in range(least, exponent)]
    if least > 1:
        smaller.append(range(least))
    same = _field(exponent)
    return [(same, same), *((same, one) for one in smaller), *((one, same) for one in smaller)]


def _field(exponent: int) -> range:
    return range(2) if exponent == 1 else range(exponent, exponent + 1)


def _within(operand: str, fields: range) -> str:
    low, high = fields[0], fields[-1]
    if low == high:
        return f"(= (ex {operand}) #x{low:02x})"
    return f"(and (bvule #x{low:02x} (ex {operand})) (bvule (ex {operand}) #x{high:02x}))"
