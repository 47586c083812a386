# SPDX-License-Identifier: Apache-2.0
"""Tests of proofs: a broken, over-constrained or empty proof must not pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.build import registry
from scripts.common import folder_locks, process
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT
from scripts.common.records import Edit, FailureKind
from scripts.prove import counterexample, crc_matrix, float_adder, proof, proving, solvers
from scripts.prove.proof import Proof

WRAPPER = "hdl/formal/fv_fifo.sv"
needs_solver = pytest.mark.skipif(not solvers.installed(), reason="no SMT solver on this machine")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return the folder for proofs; skip if it is outside of the repository.

    yosys (WebAssembly) sees only the repository.
    """
    if not BUILD.is_relative_to(ROOT):
        pytest.skip("NF_BUILD is outside of the repository")
    yield folder_locks.folder(BUILD / "prove") / "pytest"
    process.resume()


NEVER = Edit(WRAPPER, "  assign push", "  `NF_ASSUME(Never_M, !in_valid)\n\n  assign push")
LOOSE = Edit(WRAPPER, "followed_q && kept != word_q", "1'b0")


@pytest.fixture(params=["yices", proof.BITWUZLA])
def fifo(request: pytest.FixtureRequest) -> Proof:
    """Return a proof by induction, for each solver."""
    (found,) = (one for one in proof.read() if one.id == "fifo/three")
    return replace(found, solver=request.param)


def test_lists() -> None:
    assert proof.problems() == []
    assert any(one.quick for one in proof.read())


@needs_solver
def test_what_is_true_is_proved(folder: Path, fifo: Proof) -> None:
    assert proving.run(fifo, folder).cause == ""


@needs_solver
def test_counterexample_is_replayed(folder: Path, fifo: Proof) -> None:
    (mutant,) = (one for one in proof.mutants() if one.id == "fifo-takes-when-full")
    record = proving.run(proof.broken(fifo, mutant), folder, mutant.id)
    assert record.kind is FailureKind.ASSERTION
    assert any(case.status == "failed" for case in record.cases)
    assert record.waves
    assert (ROOT / record.waves).is_file()
    (stimulus,) = record.stimulus
    if not registry.quick().available():
        pytest.skip("no simulator to replay it")
    again = counterexample.replay(ROOT / stimulus, folder)
    assert again.kind is FailureKind.ASSERTION, again.cause
    failed = {case.name for case in record.cases if case.status == "failed"}
    assert again.cause.split()[0] in failed
    assert "ASSUME BROKEN" not in (ROOT / again.log).read_text(encoding="utf-8")


@needs_solver
def test_an_assumption_that_shuts_cases_out_is_red(folder: Path, fifo: Proof) -> None:
    record = proving.run(replace(fifo, edits=(NEVER,)), folder, "over-constrained")
    assert record.kind is FailureKind.MISMATCH
    assert "over-constrained: 12 clocks do not reach" in record.cause
    assert "Full_C" in record.cause


@needs_solver
def test_what_is_not_inductive_is_not_proved(folder: Path, fifo: Proof) -> None:
    record = proving.run(replace(fifo, edits=(LOOSE,)), folder, "not-inductive")
    assert record.kind is FailureKind.MISMATCH
    assert "not inductive" in record.cause


@needs_solver
def test_what_comes_to_no_end_is_red(folder: Path, fifo: Proof) -> None:
    record = proving.run(replace(fifo, timeout=0.001), folder, "no-time")
    assert record.kind is FailureKind.TIME_OUT
    assert "processor time" in record.cause


@needs_solver
def test_nothing_to_prove_is_red(folder: Path, fifo: Proof) -> None:
    record = proving.run(replace(fifo, top="nf_fifo"), folder, "nothing")
    assert record.kind is FailureKind.BUILD


def test_steps_of_a_witness() -> None:
    witness = {
        "signals": [
            {"path": ["\\a"], "offset": 0, "width": 2, "init_only": False},
            {"path": ["\\b"], "offset": 0, "width": 1, "init_only": False},
            {"path": ["\\dut", "\\mem", "\\[1]"], "offset": 0, "width": 2, "init_only": True},
        ],
        "steps": [{"bits": "10101"}, {"bits": "?10"}],
    }
    initial, clocks = counterexample.steps(witness)
    assert initial == {"dut.mem[1]": 2}
    assert clocks == [{"a": 1, "b": 1}, {"a": 2, "b": 0}]


def cell(kind: str, a: list[object], b: list[object], y: list[object]) -> dict[str, object]:
    return {
        "type": kind,
        "parameters": {"A_SIGNED": "0", "B_SIGNED": "0"},
        "port_directions": {"A": "input", "B": "input", "Y": "output"},
        "connections": {"A": a, "B": b, "Y": y},
    }


def netlist(*cells: dict[str, object], y: list[object]) -> dict[str, object]:
    ports = {
        "x": {"direction": "input", "bits": [2, 3, 4]},
        "y": {"direction": "output", "bits": y},
    }
    return {"ports": ports, "cells": {str(i): one for i, one in enumerate(cells)}}


def test_matrix_of_words() -> None:
    exclusive = netlist(cell("$xor", [2, 3], [3, 4], [5, 6]), y=[5, 2, 6])
    assert crc_matrix.outputs(exclusive)["y"] == [0b0110, 0b0010, 0b1100]
    assert crc_matrix.columns(crc_matrix.outputs(exclusive)["y"], 3) == [0b011, 0b101, 0b100]
    with pytest.raises(crc_matrix.NotLinear, match="driven by"):
        crc_matrix.outputs(netlist(cell("$and", [2], [3], [5]), y=[5]))
    with pytest.raises(crc_matrix.NotLinear, match="loop"):
        crc_matrix.outputs(netlist(cell("$xor", [5], [3], [5]), y=[5]))
    one = netlist(cell("$xor", [2], ["1"], [5]), y=[5])
    with pytest.raises(crc_matrix.NotLinear, match="no errors"):
        crc_matrix.columns(crc_matrix.outputs(one)["y"], 3)


def test_words_of_a_division() -> None:
    """Check that netlist evaluation follows sums, products and comparisons of known bits.

    The example is 2 x + 1 for a two-bit x, and its comparison with 4.
    """
    doubled = cell("$mul", [2, 3, "0"], ["0", "1"], [5, 6, 7])
    more = cell("$add", [5, 6, 7], ["1"], [8, 9, 10])
    reaches = cell("$ge", [8, 9, 10], ["0", "0", "1"], [11])
    found = crc_matrix.outputs(netlist(doubled, more, reaches, y=[8, 9, 10, 11]))
    assert found["y"] == [1, 0b0010, 0b0100, 0b0100]
    with pytest.raises(crc_matrix.NotLinear):
        crc_matrix.outputs(netlist(cell("$add", [2, 3], [3, 2], [5, 6]), y=[5, 6]))


def test_errors_that_a_matrix_lets_through() -> None:
    assert crc_matrix.undetected([1, 2, 4, 8]) == {1: "", 2: "", 3: ""}
    assert crc_matrix.undetected([1, 0, 4])[1]
    assert crc_matrix.undetected([1, 2, 1])[2]
    assert crc_matrix.undetected([1, 2, 3])[3]


def test_exponents_of_two_operands() -> None:
    """Check that each pair of finite operands is in exactly one case of one class."""
    seen = Counter(
        (a, b)
        for exponent in range(1, float_adder.LARGEST + 1)
        for of_a, of_b in float_adder.of_larger(exponent)
        for a in of_a
        for b in of_b
    )
    assert len(seen) == 255 * 255
    assert set(seen.values()) == {1}
    assert float_adder.twin_cases("exponents_1_2")[0] == (
        "(and (and (bvule #x00 (ex a)) (bvule (ex a) #x01)) "
        "(and (bvule #x00 (ex b)) (bvule (ex b) #x01)))"
    )
    equal, (first, second) = float_adder.twin_cases("pair_9_9"), float_adder.twin_cases("pair_9_8")
    assert equal == ["(and (= (ex a) #x09) (= (ex b) #x09))"]
    assert first == "(and (= (ex a) #x09) (= (ex b) #x08))"
    assert second == "(and (= (ex a) #x08) (= (ex b) #x09))"
    assert float_adder.twin_cases("far_127_128")[0] == (
        "(and (= (ex a) #x7f) (and (bvule #x00 (ex b)) (bvule (ex b) #x64)))"
    )
    for name in (
        "pair_127_100",
        "pair_8_9",
        "far_27_26",
        "some",
        "exponents_3_2",
        "exponents_0_1",
        "exponents_254_255",
    ):
        with pytest.raises(NfError, match=f"no class '{name}'"):
            float_adder.twin_cases(name)
