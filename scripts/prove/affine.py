# SPDX-License-Identifier: Apache-2.0
"""Netlist of words as a map over GF(2): each output bit as the parity of some input bits.

A value is a mask: bit 0 is the constant 1, bit i + 1 is input bit i; the sum of two values is their
exclusive or. An AND is such a value only if its operands are constant, equal or complements. That
is enough for a long division, which subtracts if the highest bit is set and thereby clears it. Any
other value is None, which matters only if an output needs it. The result holds for all inputs
without a search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Bit = int | None
Word = list[Bit]


class NotLinear(Exception):
    """Output that is no parity of inputs."""


def outputs(module: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the masks of the bits of each output, lowest first, of a stateless module in yosys'
    JSON.

    Raises:
        NotLinear: a cell is not linear; the text names it.
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
    """Values of nets, computed from the cells that drive them."""

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
        """Return the value of a net. Raise NotLinear if it has none."""
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
    """Return the product with a constant on either side."""
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
