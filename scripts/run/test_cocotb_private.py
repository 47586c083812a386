# SPDX-License-Identifier: Apache-2.0
"""Tests that each private part of cocotb that the fork server uses still exists.

If a test fails here after an update of cocotb, mend `cocotb_private.py`.
"""

from __future__ import annotations

import inspect
import re
import sys
import zlib
from types import SimpleNamespace

import cocotb.regression
import numpy
import pygpi.entry
import pytest

from scripts.run import cocotb_private


def test_what_cocotb_starts() -> None:
    source = inspect.getsource(pygpi.entry)
    default = source.partition('"PYGPI_USERS"')[2].partition(")")[0]
    assert tuple(re.findall(r'"([\w.]+:\w+)', default)) == cocotb_private.USERS


def test_the_end_of_the_tests_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = inspect.getsource(cocotb.regression.RegressionManager)
    assert "self._tearing_down = False" in source
    assert "self._tearing_down = True" in source
    assert "_manager_inst" in inspect.get_annotations(cocotb.regression)
    ending = type("Manager", (), {"_tearing_down": True})()
    assert not cocotb_private.tests_are_over()
    monkeypatch.setattr(cocotb.regression, "_manager_inst", ending, raising=False)
    assert cocotb_private.tests_are_over()


def test_torch_is_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(manual_seed=seeds.append))
    state = numpy.random.get_state()
    cocotb_private._seed("a test")
    numpy.random.set_state(state)
    assert seeds == [zlib.crc32(b"a test")]
