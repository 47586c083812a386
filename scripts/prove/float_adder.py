# SPDX-License-Identifier: Apache-2.0
"""The FP32 adder against `fp.add` of SMT-LIB, round to nearest even, with one NaN (controller §6).

The question to the solver: are there two operands, presented in one clock, after which the sum of
the next clock is another? `unsat` is a proof for all operands of the class: the registers between
the stages are part of the model, whatever they held before.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.common.paths import shown
from scripts.prove import bitwuzla_solver, model
from scripts.prove.proof import Proof

CLASSES = {
    "idle": "",  # no operands: the sum is zero
    "special": "(or (odd a) (odd b))",  # an infinity, a NaN or a zero among them
    "far": "(or (far a b) (far b a))",  # the smaller one is less than the last place of the larger
    "same-sign": "(= (sg a) (sg b))",
    "other-sign": "(distinct (sg a) (sg b))",
}
_MODEL = """
hierarchy -check -top {top}
proc
flatten
opt -fast
dffunmap
opt_clean
write_smt2 -stbv -wires {path}
"""
_QUESTION = """
(define-fun sg ((x (_ BitVec 32))) (_ BitVec 1) ((_ extract 31 31) x))
(define-fun ex ((x (_ BitVec 32))) (_ BitVec 8) ((_ extract 30 23) x))
(define-fun wide ((x (_ BitVec 32))) (_ BitVec 10) ((_ zero_extend 2) (ex x)))
(define-fun odd ((x (_ BitVec 32))) Bool
  (or (= (ex x) #xff) (= ((_ extract 30 0) x) (_ bv0 31))))
(define-fun far ((x (_ BitVec 32)) (y (_ BitVec 32))) Bool
  (bvugt (wide x) (bvadd (wide y) (_ bv26 10))))
(declare-const now |{top}_s|)
(declare-const then |{top}_s|)
(assert (|{top}_t| now then))
(assert (= (|{top}_n en| now) {en}))
(define-fun a () (_ BitVec 32) (|{top}_n a| now))
(define-fun b () (_ BitVec 32) (|{top}_n b| now))
(define-fun sum () (_ BitVec 32) (|{top}_n sum| then))
(define-fun exact () (_ FloatingPoint 8 24)
  (fp.add RNE ((_ to_fp 8 24) a) ((_ to_fp 8 24) b)))
(assert (not {right}))
(assert {among})
(check-sat)
(get-value (a b sum))
"""
# The identity `=` tells +0 from -0, and takes all NaNs for one: that one is compared by its bits.
_RIGHT = "(ite (fp.isNaN exact) (= sum #x7fc00000) (= ((_ to_fp 8 24) sum) exact))"


@dataclass(frozen=True)
class Answer:
    """The properties asked for, and those that are wrong or not known."""

    properties: tuple[str, ...]
    failed: tuple[str, ...] = ()
    wrong: str = ""
    unknown: tuple[str, ...] = ()
    classes: str = ""


def prove(proof: Proof, folder: Path) -> Answer:
    """Ask for the operands of the class that the proof is named by."""
    name = proof.id.partition("/")[2]
    path = folder / "model.smt2"
    model.run_script(proof, folder, _MODEL.format(top=proof.top, path=shown(path)))
    idle = name == "idle"
    question = _QUESTION.format(
        top=proof.top,
        en="false" if idle else "true",
        right="(= sum #x00000000)" if idle else _RIGHT,
        among=CLASSES[name] or "true",
    )
    text = "(set-logic QF_BVFP)\n" + path.read_text(encoding="utf-8") + question
    answer = bitwuzla_solver.ask(text, folder, proof.timeout_s)
    prop = f"Sum_{name}_A"
    if answer.satisfiable is None:
        return Answer((prop,), unknown=(prop,), classes=name)
    if answer.satisfiable:
        return Answer((prop,), (prop,), answer.values, classes=name)
    return Answer((prop,), classes=name)
