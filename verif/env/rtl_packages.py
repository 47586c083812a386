# SPDX-License-Identifier: Apache-2.0
"""Constants and packed structures of the packages in hdl/pkg, and parameters of the RTL.

They give the sizes of the protected RAMs of the build, in which RAS_INJECT can flip a bit
(hdl/ram/README.md): a depth that changes there so cannot leave flips without effect.
"""

import functools
import random
import re
from pathlib import Path
from typing import NamedTuple

import pyslang

from cocotbext.cxl.wire.crc import PAYLOAD_MASK
from models.parameters import DeviceParams
from models.regions import MAX_WORKERS
from verif.parameters import build_parameters

FOLDER = Path(__file__).resolve().parents[2] / "hdl/pkg"
PACKAGES = ("nf_pkg", "nf_core_pkg", "nf_fp32_pkg", "nf_ram_pkg")
TOP = Path(__file__).resolve().parents[2] / "hdl/nf_controller.sv"


@functools.cache
def _compiled() -> pyslang.ast.Compilation:
    compilation = pyslang.ast.Compilation()
    for package in PACKAGES:
        tree = pyslang.syntax.SyntaxTree.fromFile(str(FOLDER / f"{package}.sv"))
        compilation.addSyntaxTree(tree)
    return compilation


@functools.cache
def structure(name: str) -> pyslang.ast.Type:
    """Return a packed structure of the packages in hdl/pkg, as slang reads it.

    Raises:
        KeyError: No package has this structure.
    """
    for package in PACKAGES:
        found = _compiled().getPackage(package).find(name)
        if isinstance(found, pyslang.ast.TypeAliasType):
            return found.canonicalType
    raise KeyError(f"no package has a structure {name}")


@functools.cache
def constant(name: str) -> int:
    """Return the value of a localparam of the packages in hdl/pkg.

    Raises:
        KeyError: No package has this constant.
    """
    for package in PACKAGES:
        found = _compiled().getPackage(package).find(name)
        if isinstance(found, pyslang.ast.ParameterSymbol):
            return int(str(found.value))
    raise KeyError(f"no package has a constant {name}")


def parameter(name: str) -> int:
    """Return an RTL parameter of the build, or its default in the top module.

    Raises:
        KeyError: The top module has no such parameter.
    """
    if name in (built := build_parameters()):
        return built[name]
    found = re.search(rf"parameter int {name}\s*=\s*(\d+)", TOP.read_text(encoding="utf-8"))
    if found is None:
        raise KeyError(f"{TOP.name} has no parameter {name}")
    return int(found[1])


ROWS_OF_INJECT = 256
"""RAS_INJECT.ROW reaches no further."""
MARKS_OF_A_ROW = 32
MARK_BITS = 4
FLIT_MARKS = 2
"""All-data flit, and a flit that all-data flits follow."""


class Ram(NamedTuple):
    """Size of a protected RAM.

    Attributes:
        rows: Number of rows.
        data: Data bits of a row, without check bits.
        lane: Data bits that have check bits together; 0 if all of a row have.
    """

    rows: int
    data: int
    lane: int = 0

    def bits(self, ecc: int) -> int:
        """Return the number of bits of a row with its check bits, for `ecc` NONE, PARITY or
        SECDED.
        """
        lane = self.lane or self.data
        words = -(-lane // 64)
        return (
            self.data + -(-self.data // lane) * (1, 1 << (words - 1).bit_length(), 8 * words)[ecc]
        )

    def beside(self, place: int, rng: random.Random) -> int:
        """Draw another bit of the word that SECDED protects together with bit `place` of a row.

        A word has 64 data bits and 8 check bits.
        """
        word = place // 64 if place < self.data else (place - self.data) // 8
        bits = [*range(64 * word, min(64 * word + 64, self.data))]
        bits += range(self.data + 8 * word, self.data + 8 * word + 8)
        return rng.choice([one for one in bits if one != place])


def rams(hw: DeviceParams) -> dict[str, Ram]:
    """Return the size of each protected RAM of the build, by name in RAS_INJECT.RAM."""
    line = constant("LINE_W")
    counted = hw.cnt_w if hw.tern5 else min(hw.cnt_w, MAX_WORKERS.bit_length())
    planes, book = counted * line, structure("book_t").bitWidth
    waiting = constant("NDR_OWED") + constant("DRS_OWED")
    marks = 1 << parameter("WRITTEN_LOG2")
    row = min(marks, MARKS_OF_A_ROW)
    round_bits = max(1, (marks // row).bit_length() - 1)
    return {
        "PLANES": Ram(hw.slots, planes),
        "BOOK": Ram(hw.slots, book),
        "EVICT": Ram(constant("EVICT_DEPTH"), planes + book, line),
        "PARKED": Ram(waiting, line),
        "DEFERRED": Ram(waiting, line),
        "STORES": Ram(constant("EXIT_DEPTH"), line),
        "MARKS": Ram(min(hw.regions * marks // row, ROWS_OF_INJECT), row * MARK_BITS + round_bits),
        "ANSWERS": Ram(constant("DRS_OWED"), line),
        "WRITES": Ram(hw.rwd_credits, line),
        "RETRY": Ram(hw.retry_depth, PAYLOAD_MASK.bit_length() + FLIT_MARKS),
    }
