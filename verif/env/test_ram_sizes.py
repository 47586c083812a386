# SPDX-License-Identifier: Apache-2.0
"""Tests that the sizes of `rams` are those of the protected RAMs in the elaborated design."""

import json
from pathlib import Path
from typing import Any

import pyslang
import pytest

from models.parameters import DeviceParams
from models.register_map import REG_MAP
from verif.env.rtl_packages import ROWS_OF_INJECT, constant, parameter, rams, structure

ROOT = Path(__file__).resolve().parents[2]
NAMES = {number: name for name, number in REG_MAP.enums["Ram"].items()}
SETS: list[dict[str, int]] = [
    {},
    {"REGIONS": 3, "SLOTS": 4, "CNT_W": 4, "RETRY_DEPTH": 24, "RWD_CREDITS": 8, "WRITTEN_LOG2": 3},
    {"REGIONS": 16, "SLOTS": 256, "CNT_W": 1, "WRITTEN_LOG2": 20},
    {"SLOTS": 4, "TERN5": 1},
]


def guards(values: dict[str, int]) -> dict[str, tuple[int, int, int]]:
    """Return rows, data bits and bits of a lane (0: all) of each protected RAM.

    They are those of the top module as slang elaborates it.
    """
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    given = " ".join(f"-G {name}={value}" for name, value in values.items())
    assert driver.parseCommandLine(f"slang -f hdl/nf_controller.f --top nf_controller {given}")
    assert driver.processOptions()
    assert driver.parseAllSources()
    out: dict[str, tuple[int, int, int]] = {}

    def visit(symbol: Any) -> None:
        one = isinstance(symbol, pyslang.ast.InstanceSymbol)
        if one and symbol.definition.name == "nf_ram_guard":
            names = ("RAM", "ROWS", "WIDTH", "LANE")
            number, rows, width, lane = (int(symbol.body.find(name).value.value) for name in names)
            out[NAMES[number]] = rows, width, lane % width

    driver.createCompilation().getRoot().visit(visit)
    return out


@pytest.mark.parametrize("values", SETS)
def test_sizes_are_those_of_the_design(
    values: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("NF_PARAMETERS", json.dumps(values))
    wanted = {
        name: (min(rows, ROWS_OF_INJECT), *bits) for name, (rows, *bits) in guards(values).items()
    }
    assert {name: tuple(ram) for name, ram in rams(DeviceParams.from_rtl(values)).items()} == wanted
    assert set(wanted) == set(NAMES.values()), "a RAM has a number and no guard"


def test_what_is_not_there_is_an_error() -> None:
    for read in (constant, structure, parameter):
        with pytest.raises(KeyError, match="nothing"):
            read("nothing")
