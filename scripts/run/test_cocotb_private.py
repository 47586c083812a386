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
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import cocotb.regression
import cocotb_tools
import numpy
import pygpi.entry
import pytest

from scripts.run import cocotb_private


def test_what_cocotb_starts() -> None:
    source = inspect.getsource(pygpi.entry)
    default = source.partition('"PYGPI_USERS"')[2].partition(")")[0]
    assert tuple(re.findall(r'"([\w.]+:\w+)', default)) == cocotb_private.USERS


@pytest.mark.parametrize("name", cocotb_private.ENTRY_POINTS)
def test_starting_points(name: str) -> None:
    module, _, function = name.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("name", cocotb_private.PRELOAD)
def test_preloaded_modules(name: str) -> None:
    importlib.import_module(name)


def test_assertion_rewriting_is_set_up_once_by_the_manager() -> None:
    manager = cocotb.regression.RegressionManager
    assert list(inspect.signature(manager.setup_pytest_assertion_rewriting).parameters) == []
    start = inspect.getsource(cocotb.regression._run_regression)
    start += inspect.getsource(cocotb.regression)
    assert "_manager_inst.setup_pytest_assertion_rewriting()" in start


def test_the_end_of_the_tests_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = inspect.getsource(cocotb.regression.RegressionManager)
    assert "self._tearing_down = False" in source
    assert "self._tearing_down = True" in source
    assert "_manager_inst" in inspect.get_annotations(cocotb.regression)
    ending = type("Manager", (), {"_tearing_down": True})()
    assert not cocotb_private.tests_are_over()
    monkeypatch.setattr(cocotb.regression, "_manager_inst", ending, raising=False)
    assert cocotb_private.tests_are_over()


@pytest.mark.parametrize("name", sorted(cocotb_private.PER_RUN))
def test_variables_are_read_by_the_regression(name: str) -> None:
    """Not by what runs before the fork: the start of Python inside the simulator."""
    folders = [Path(inspect.getfile(module)).parent for module in (cocotb, cocotb_tools)]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in files if path.name != "runner.py"]
    assert any(f'"{name}"' in text for text in texts)
    assert name not in inspect.getsource(pygpi.entry)


def test_where_the_regression_lists_its_tests_and_begins_one() -> None:
    manager = cocotb.regression.RegressionManager
    for method in (manager.start_regression, manager._schedule_next_test):
        assert list(inspect.signature(method).parameters) == ["self"]
    assert "self._test_queue.sort(" in inspect.getsource(manager.start_regression)
    begin = inspect.getsource(manager._schedule_next_test)
    assert begin.index("random.seed(test_seed)") < begin.index("self._running_test.start()")
    assert "self._test.fullname" in begin


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
        monkeypatch.delitem(sys.modules, name)
    assert torch.seeds == [zlib.crc32(b"second test"), zlib.crc32(b"third test")]
    assert torch.__loader__ is shared
    assert len(sys.meta_path) == finders
