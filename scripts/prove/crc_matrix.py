# SPDX-License-Identifier: Apache-2.0
"""CRC as a matrix over GF(2), extracted from its netlist, with its consequences (link spec §2).

No search is needed: if each output is the parity of some inputs, syndrome(a ^ b) is syndrome(a) ^
syndrome(b). An error is then detected, whatever the flit, if its own syndrome, the exclusive or of
the columns of the flipped bits, is not zero. Two modules that are both such maps are equal for
every flit if their columns are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from neuron_fabric.data import DataLimits, as_object, read_json
from scripts.common.budget import Budget
from scripts.common.paths import shown
from scripts.prove import model
from scripts.prove.proof import Proof

# Netlist of words as a map over GF(2): each output bit as the parity of some input bits.
#
# A value is a mask: bit 0 is the constant 1, bit i + 1 is input bit i; the sum of two values is
# their exclusive or. An AND is such a value only if its operands are constant, equal or
# complements. That is enough for a long division, which subtracts if the highest bit is set and
# thereby clears it. Any other value is None, which matters only if an output needs it. The result
# holds for all inputs without a search.

Bit = int | None
Word = list[Bit]


class NotLinear(Exception):
    """An output of a netlist is not the parity of inputs."""


def outputs(module: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return each output of a module without state as masks of its bits, lowest bit first.

    Bit 0 of a mask is a constant 1; bit i + 1 is set if input bit i is part of the parity.

    Args:
        module: Module in yosys' JSON form.

    Raises:
        NotLinear: A cell is not linear; the text names it.
    """
    ports = module["ports"]
    inputs = [
        bit for port in ports.values() if port["direction"] == "input" for bit in port["bits"]
    ]
    known: dict[Any, Bit] = {"0": 0, "1": 1, "x": None}
    known |= {bit: 2 << i for i, bit in enumerate(inputs)}
    cells = _Cells(module["cells"].values(), known)
    return {
        name: [cells.mask(bit) for bit in port["bits"]]
        for name, port in ports.items()
        if port["direction"] == "output"
    }


class _Cells:
    """Evaluator of nets as parities of input bits, from the cells that drive them."""

    def __init__(self, cells: Any, known: dict[Any, Bit]) -> None:
        self._known = known
        self._lost = ""  # the type of the first cell that is not affine
        self._drivers = {
            bit: cell
            for cell in cells
            for port, bits in cell["connections"].items()
            if cell["port_directions"][port] == "output"
            for bit in bits
        }

    def mask(self, bit: Any) -> int:
        """Return the mask of a net (see `outputs`); raise NotLinear if the net is no parity."""
        waiting = [bit]
        while waiting:
            net = waiting[-1]
            if net in self._known:
                waiting.pop()
                continue
            cell = self._drivers.get(net)
            if cell is None:
                raise NotLinear("a net is driven by nothing")
            pins = cell["connections"]
            ins = {p: bits for p, bits in pins.items() if cell["port_directions"][p] == "input"}
            missing = [b for bits in ins.values() for b in bits if b not in self._known]
            if missing:
                if net in missing:
                    raise NotLinear(f"a loop through {cell['type']}")
                waiting += missing
                continue
            values = {port: [self._known[b] for b in bits] for port, bits in ins.items()}
            self._known.update(zip(pins["Y"], self._output(cell, values), strict=True))
        value = self._known[bit]
        if value is None:
            raise NotLinear(f"a net is driven by {self._lost or 'x'}, no exclusive or")
        return value

    def _output(self, cell: Any, values: Mapping[str, Word]) -> Word:
        kind, width = cell["type"], len(cell["connections"]["Y"])
        out: Word = [None] * width
        if kind == "$mux":
            (select,) = values["S"]
            out = [_mux(select, a, b) for a, b in zip(values["A"], values["B"], strict=True)]
        elif kind in _OPERATORS:
            words = [_extended(cell, values, port, width) for port in "AB" if port in values]
            out = _OPERATORS[kind](words, width)
        if None in out and not self._lost:
            self._lost = kind
        return out


def _extended(cell: Any, values: Mapping[str, Word], port: str, width: int) -> Word:
    """Return an operand extended to more bits than any other: by its sign, or by zeros."""
    word = values[port]
    signed = int(cell["parameters"][f"{port}_SIGNED"], 2)
    most = max(width, *(len(one) for one in values.values())) + 1
    top: Bit = word[-1] if signed else 0
    return [*word, *([top] * (most - len(word)))]


def _and(a: Bit, b: Bit) -> Bit:
    if a == 0 or b == 0:
        return 0
    if a is None or b is None:
        return None
    if 1 in (a, b) or a == b:
        return a if b == 1 else b
    return 0 if a == b ^ 1 else None


def _xor(a: Bit, b: Bit) -> Bit:
    return None if a is None or b is None else a ^ b


def _mux(select: Bit, a: Bit, b: Bit) -> Bit:
    if select in (0, 1):
        return b if select else a
    return _xor(a, _and(select, _xor(a, b)))


def _sum(a: Sequence[Bit], b: Sequence[Bit], carry: Bit) -> Word:
    out: Word = []
    for one, other in zip(a, b, strict=True):
        out.append(_xor(_xor(one, other), carry))
        carry = _xor(one, _and(_xor(one, other), _xor(one, carry)))  # the majority
    return out


def _product(words: Sequence[Word], width: int) -> Word:
    """Return the product of two words, one of which must be constant; bits are None otherwise."""
    a, b = words if all(bit in (0, 1) for bit in words[1]) else words[::-1]
    total: Word = [0] * len(a)
    for place, bit in enumerate(b):
        if bit is None or bit > 1:
            return [None] * width
        if bit:
            total = _sum(total, [*([0] * place), *a][: len(a)], 0)
    return total[:width]


def _at_least(words: Sequence[Word], width: int) -> Word:
    difference = _sum(words[0], [_xor(bit, 1) for bit in words[1]], 1)
    return [_xor(difference[-1], 1), *([0] * (width - 1))]


def _parity(words: Sequence[Word], width: int) -> Word:
    total: Bit = 0
    for bit in words[0]:
        total = _xor(total, bit)
    return [total, *([0] * (width - 1))]


def _each(operator: Callable[[Bit, Bit], Bit]) -> Callable[[Sequence[Word], int], Word]:
    return lambda words, width: [operator(a, b) for a, b in zip(*words, strict=True)][:width]


_OPERATORS: dict[str, Callable[[Sequence[Word], int], Word]] = {
    "$and": _each(_and),
    "$xor": _each(_xor),
    "$add": lambda words, width: _sum(words[0], words[1], 0)[:width],
    "$mul": _product,
    "$ge": _at_least,
    "$reduce_xor": _parity,
}


ARGUMENT = "linear: each bit of the syndrome is the parity of some bits of the flit"
POLYNOMIAL, DEGREE, PAYLOAD = 0x1F053, 16, 512  # link spec §2
_LIMITS = DataLimits(size=64 << 20, depth=20, values=4_000_000)


def prove(proof: Proof, folder: Path, budget: Budget) -> dict[str, str]:
    """Prove the properties of the CRC modules from the netlist of a wrapper.

    For a wrapper with a MyHDL twin these are the equality of both; else linearity, the polynomial,
    and the detection of all errors of 1, 2 and 3 bits.

    Returns:
        Every property by name, with "" if it holds, else the reason why not.
    """
    path = folder / "netlist.json"
    script = model.template("crc.ys", top=proof.top, path=shown(path))
    model.run_script(proof, folder, script, budget, reading="--no-proc")
    module = as_object(read_json(path, _LIMITS))["modules"][proof.top]
    try:
        masks = outputs(module)
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
    """Compare the CRC with its MyHDL twin: the same parities with `en`, zero without.

    Returns as `prove`.
    """
    pairs = enumerate(zip(masks["crc"], masks["twin"], strict=True))
    differ = [i for i, (one, other) in pairs if one != other]
    idle = any((*masks["idle"], *masks["twin_idle"]))
    return {
        "Linear_A": "",
        "SameParities_A": f"bits {differ[:4]} are of other parities" if differ else "",
        "SameIdle_A": "one of them is not zero without `en`" if idle else "",
    }


def undetected(found: Sequence[int]) -> dict[int, str]:
    """Return, for errors of 1, 2 and 3 bits, a text on one that is not detected; "" if all are.

    ``found`` is the syndrome of each bit of the flit (`columns`).
    """
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
    """Return the text on the first undetected error; "" if there is none."""
    one = next(errors, None)
    return "" if one is None else f"an error in bits {one} is not detected"


def _power(n: int) -> int:
    """Return x^n modulo the CRC polynomial as a bit mask."""
    value = 1
    for _ in range(n):
        value <<= 1
        if value >> DEGREE:
            value ^= POLYNOMIAL
    return value


def columns(masks: Sequence[int], inputs: int = PAYLOAD + DEGREE) -> list[int]:
    """Return the columns of a linear map: for each input bit, a mask of the output bits it flips.

    Args:
        masks: Mask of each output bit, as `outputs` returns them.
        inputs: Number of input bits.

    Raises:
        NotLinear: An output has a constant 1.
    """
    if any(mask & 1 for mask in masks):
        raise NotLinear("no errors, and yet a bit is set")
    return [
        sum(1 << row for row, mask in enumerate(masks) if mask >> i + 1 & 1) for i in range(inputs)
    ]
