# SPDX-License-Identifier: Apache-2.0
"""Each private part of cocotb that the fork server stands on is where it was: when a test here is
red after an update of cocotb, mend `cocotb_private.py`."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import zlib
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar

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


class Shared(MetaPathFinder, Loader):
    """One loader for all modules, as that of pytest's assertions."""

    sources: ClassVar = {
        "torch": "import torch_part\nseeds = []\nmanual_seed = seeds.append",
        "torch_part": "",
    }

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in self.sources else None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.sources[module.__name__], module.__dict__)


def test_torch_is_seeded_when_a_test_imports_it_late(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    shared = Shared()
    monkeypatch.setattr(sys, "meta_path", [shared, *sys.meta_path])
    state = numpy.random.get_state()
    finders = len(sys.meta_path)
    cocotb_private._seed("first test")
    cocotb_private._seed("second test")
    assert len(sys.meta_path) == finders + 1
    torch = importlib.import_module("torch")
    cocotb_private._seed("third test")
    numpy.random.set_state(state)
    for name in shared.sources:
        del sys.modules[name]
    assert torch.seeds == [zlib.crc32(b"second test"), zlib.crc32(b"third test")]
    assert torch.__loader__ is shared
    assert len(sys.meta_path) == finders
