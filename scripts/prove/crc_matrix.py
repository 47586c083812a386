# SPDX-License-Identifier: Apache-2.0
"""The CRC as a matrix over GF(2), read out of its gates, and what follows from it (link spec §2).

No search is needed: where every gate is an exclusive or, each output is the parity of some inputs,
so syndrome(a ^ b) = syndrome(a) ^ syndrome(b). An error is then detected if its own syndrome is not
zero, whatever the flit was: the exclusive or of the columns of the bits that it flips.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from neuron_fabric.data import Limits, as_object, read_json
from scripts.common.paths import shown
from scripts.prove import model
from scripts.prove.proof import Proof

ARGUMENT = "linear: each bit of the syndrome is the parity of some bits of the flit"
POLYNOMIAL, DEGREE, PAYLOAD = 0x1F053, 16, 512  # link spec §2
_NETLIST = """
hierarchy -check -top {top}
proc
flatten
opt -full
techmap
opt -full
write_json {path}
"""
_LIMITS = Limits(size=64 << 20, depth=20, values=2_000_000)


class NotLinear(Exception):
    """A gate that is no exclusive or."""


def prove(proof: Proof, folder: Path) -> dict[str, str]:
    """Each property and why it does not hold; empty where it does."""
    path = folder / "netlist.json"
    model.run_script(proof, folder, _NETLIST.format(top=proof.top, path=shown(path)))
    module = as_object(read_json(path, _LIMITS))["modules"][proof.top]
    try:
        found = columns(module)
    except NotLinear as error:
        return {"Linear_A": str(error)}
    wanted = [_power(i + DEGREE) for i in range(PAYLOAD)] + [1 << i for i in range(DEGREE)]
    differ = [i for i, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1]]
    return {
        "Linear_A": "",
        "Polynomial_A": f"bits {differ[:4]} of the flit are of another column" if differ else "",
        **{f"ErrorsOf{n}_A": why for n, why in undetected(found).items()},
    }


def undetected(found: Sequence[int]) -> dict[int, str]:
    """For 1, 2 and 3 bits an error of as many that has no syndrome; empty where there is none."""
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
    """The first error that is not seen, as a reason."""
    one = next(errors, None)
    return "" if one is None else f"an error in bits {one} is not detected"


def _power(n: int) -> int:
    """x^n modulo the polynomial."""
    value = 1
    for _ in range(n):
        value <<= 1
        if value >> DEGREE:
            value ^= POLYNOMIAL
    return value


def columns(module: Mapping[str, Any]) -> list[int]:
    """Of each input bit the outputs that it turns over, lowest first; NotLinear names a gate."""
    ports = module["ports"]
    (inputs,) = (p["bits"] for p in ports.values() if p["direction"] == "input")
    (outputs,) = (p["bits"] for p in ports.values() if p["direction"] == "output")
    drivers = {
        bit: cell
        for cell in module["cells"].values()
        for port, bits in cell["connections"].items()
        if cell["port_directions"][port] == "output"
        for bit in bits
    }
    known: dict[Any, int] = {bit: 1 << i for i, bit in enumerate(inputs)}
    known["0"] = 0
    rows = [_parity(bit, drivers, known) for bit in outputs]
    return [
        sum(1 << row for row, mask in enumerate(rows) if mask >> i & 1) for i in range(len(inputs))
    ]


def _parity(bit: Any, drivers: Mapping[Any, Any], known: dict[Any, int]) -> int:
    """Inputs that a net is the parity of, as a mask."""
    waiting = [bit]
    while waiting:
        net = waiting[-1]
        if net in known:
            waiting.pop()
            continue
        cell = drivers.get(net)
        if cell is None or cell["type"] != "$_XOR_":
            raise NotLinear(f"a net is driven by {cell['type'] if cell else net}, no exclusive or")
        sides = [cell["connections"][port][0] for port in "AB"]
        missing = [side for side in sides if side not in known]
        if missing:
            waiting += missing
        else:
            known[net] = known[sides[0]] ^ known[sides[1]]
    return known[bit]
