# SPDX-License-Identifier: Apache-2.0
"""CRC as a matrix over GF(2), extracted from its netlist, with its consequences (link spec §2).

No search is needed: if each output is the parity of some inputs, syndrome(a ^ b) is syndrome(a) ^
syndrome(b). An error is then detected, whatever the flit, if its own syndrome, the exclusive or of
the columns of the flipped bits, is not zero. Two modules that are both such maps are equal for
every flit if their columns are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from neuron_fabric.data import DataLimits, as_object, read_json
from scripts.common.budget import Budget
from scripts.common.paths import shown
from scripts.prove import affine, model
from scripts.prove.affine import NotLinear
from scripts.prove.proof import Proof

ARGUMENT = "linear: each bit of the syndrome is the parity of some bits of the flit"
POLYNOMIAL, DEGREE, PAYLOAD = 0x1F053, 16, 512  # link spec §2
_LIMITS = DataLimits(size=64 << 20, depth=20, values=4_000_000)


def prove(proof: Proof, folder: Path, budget: Budget) -> dict[str, str]:
    """Return each violated property with the reason; empty if all hold."""
    path = folder / "netlist.json"
    script = model.template("crc.ys", top=proof.top, path=shown(path))
    model.run_script(proof, folder, script, budget, reading="--no-proc")
    module = as_object(read_json(path, _LIMITS))["modules"][proof.top]
    try:
        masks = affine.outputs(module)
        if "twin" in masks:
            return _same(masks)
        found = columns(masks["syndrome"])
    except NotLinear as error:
        return {"Linear_A": str(error)}
    wanted = [_power(i + DEGREE) for i in range(PAYLOAD)] + [1 << i for i in range(DEGREE)]
    differ = [i for i, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1]]
    return {
        "Linear_A": "",
        "Polynomial_A": f"bits {differ[:4]} of the flit are of another column" if differ else "",
        **{f"ErrorsOf{n}_A": why for n, why in undetected(found).items()},
    }


def _same(masks: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Compare the module with its twin: the same parities with `en`, zero without."""
    pairs = enumerate(zip(masks["crc"], masks["twin"], strict=True))
    differ = [i for i, (one, other) in pairs if one != other]
    idle = any((*masks["idle"], *masks["twin_idle"]))
    return {
        "Linear_A": "",
        "SameParities_A": f"bits {differ[:4]} are of other parities" if differ else "",
        "SameIdle_A": "one of them is not zero without `en`" if idle else "",
    }


def undetected(found: Sequence[int]) -> dict[int, str]:
    """Return an undetected error of 1, 2 and 3 bits each; empty if there is none."""
    place = {column: i for i, column in enumerate(found)}
    triples = (
        (i, j, place[found[i] ^ found[j]])
        for i in range(len(found))
        for j in range(i)
        if found[i] ^ found[j] in place
    )
    return {
        1: _first(i for i, column in enumerate(found) if not column),
        2: _first((i, place[column]) for i, column in enumerate(found) if place[column] != i),
        3: _first(triples),
    }


def _first(errors: Iterator[object]) -> str:
    """Return the first undetected error as a reason."""
    one = next(errors, None)
    return "" if one is None else f"an error in bits {one} is not detected"


def _power(n: int) -> int:
    """Return x^n modulo the polynomial."""
    value = 1
    for _ in range(n):
        value <<= 1
        if value >> DEGREE:
            value ^= POLYNOMIAL
    return value


def columns(masks: Sequence[int], inputs: int = PAYLOAD + DEGREE) -> list[int]:
    """Return for each input bit the output bits that it flips, lowest first."""
    if any(mask & 1 for mask in masks):
        raise NotLinear("no errors, and yet a bit is set")
    return [
        sum(1 << row for row, mask in enumerate(masks) if mask >> i + 1 & 1) for i in range(inputs)
    ]
