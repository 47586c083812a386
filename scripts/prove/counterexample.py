# SPDX-License-Identifier: Apache-2.0
"""Counterexample of a proof as a stimulus, and its replay in a simulator.

The stimulus holds the inputs of the proof's wrapper module in each clock, and the initial values of
registers without a reset.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from neuron_fabric import output
from neuron_fabric.data import DataError, read_object
from scripts.build import registry
from scripts.common.errors import NfError
from scripts.common.paths import ROOT, shown
from scripts.common.records import BuildSpec, Dut, Edit, RunRecord, RunSpec, Waves
from scripts.prove.proof import DEFINES, FILELIST, Method, Proof
from scripts.run import simulate

BENCH = "verif.formal.counterexample_bench"
VARIABLE = "NF_COUNTEREXAMPLE"


def write(proof: Proof, witness: Path, failed: tuple[str, ...], folder: Path) -> Path:
    """Write the stimulus of a counterexample to `stimulus.json`, and return its path.

    Args:
        proof: The proof that failed.
        witness: Witness file of yosys (`.yw`).
        failed: Names of the broken assertions.
        folder: Folder of the proof.
    """
    path = folder / "stimulus.json"
    initial, clocks = steps(read_object(witness))
    text = json.dumps(
        {
            "proof": proof.id,
            "top": proof.top,
            "parameters": dict(proof.parameters),
            "dut": proof.dut,
            "edits": [[edit.file, edit.old, edit.new] for edit in proof.edits],
            "failed": list(failed),
            "reset": proof.method is not Method.ONCE,
            "initial": {name: hex(value) for name, value in initial.items()},
            "clocks": [{n: hex(value) for n, value in clock.items()} for clock in clocks],
        },
        indent=1,
    )
    output.write_text(path, text)
    return path


def steps(witness: dict[str, Any]) -> tuple[dict[str, int], list[dict[str, int]]]:
    """Return the initial values of registers by name, and the inputs by name of each clock.

    ``witness`` is the JSON of a yosys witness: in a step the last signal comes first, and only the
    first step contains registers. Undefined bits become 0.
    """
    signals = [s for s in witness["signals"] if not s["init_only"]]
    signals += [s for s in witness["signals"] if s["init_only"]]
    initial: dict[str, int] = defaultdict(int)
    clocks: list[dict[str, int]] = []
    for step in witness["steps"]:
        bits, values = step["bits"], dict[str, int]()
        for signal in signals:
            if not bits:
                break
            width = signal["width"]
            bits, own = bits[:-width], bits[-width:]
            value = int(own.replace("?", "0").replace("x", "0"), 2) << signal["offset"]
            name = _name(signal["path"])
            if "$" in name:  # a name that yosys has made: a row that a memory has not
                continue
            if signal["init_only"]:
                initial[name] |= value
            else:
                values[name] = values.get(name, 0) | value
        clocks.append(values)
    return dict(initial), clocks


def _name(path: list[str]) -> str:
    r"""Return the simulator name of a path in a yosys witness: `\dut`, `\mem[2]` is dut.mem[2]."""
    return ".".join(part.lstrip("\\") for part in path).replace(".[", "[")


def replay(path: Path, runs: Path, waves: bool = False) -> RunRecord:
    """Drive a stimulus through the wrapper of its proof in a simulator; return the record.

    The run is expected to fail, as the proof did.

    Args:
        path: Stimulus file of `write`.
        runs: Parent of the run folder.
        waves: Whether waves are written.

    Raises:
        NfError: The file is no counterexample, or no simulator is installed.
    """
    simulator = registry.quick()
    if not simulator.available():
        raise NfError(simulator.missing)
    try:
        found = read_object(path)
        build = BuildSpec(
            simulator.name,
            found["top"],
            FILELIST,
            parameters=tuple(sorted(found["parameters"].items())),
            defines=DEFINES,
            edits=tuple(Edit(*edit) for edit in found["edits"]),
            dut=Dut(found.get("dut", Dut.RTL)),
        )
    except (OSError, KeyError, TypeError, DataError) as error:
        raise NfError(f"{shown(path)} is no counterexample: {error}.") from error
    if waves:
        build = replace(build, waves=Waves.FST)
    spec = RunSpec(
        build,
        BENCH,
        ("replay",),
        env=((VARIABLE, str(path if path.is_absolute() else ROOT / path)),),
        build_name=found["proof"].replace("/", "-"),
        rerun=f".venv/bin/nf prove --replay {shown(path)}",
        timeout_s=120.0,
    )
    return simulate.run(spec, runs)
