# SPDX-License-Identifier: Apache-2.0
"""Tests of discovery: it finds the tests that cocotb registers, and names the lost ones."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from scripts.common.errors import NfError
from scripts.plan import discover

Write = Callable[[str, str], Path]
Answer = tuple[list[dict[str, Any]], list[str]]

WAYS = '''
    import os
    import cocotb as c
    from cocotb import test as hdl_test, Param
    from cocotb.regression import Test
    from pyuvm import test
    import pyuvm
    from t.shared import borrowed, decorated

    @c.test
    async def bare(dut): ...
    @hdl_test(name="by_name", timeout_time=1, timeout_unit="ms", stage=3, expect_fail=True)
    async def renamed(dut):
        """The first line.

        The second one."""
    @c.parametrize(a=[0, 1], b=["x", Param(value=7, name="seven")])
    async def only_values(dut, a, b): ...
    @c.skipif(True, reason="never here")
    @c.test()
    async def left_out(dut): ...
    @c.skipif(False)
    async def kept(dut): ...
    @c.test(expect_error=(ValueError, KeyError))
    @c.xfail(raises=OSError)
    async def fails(dut): ...
    @c.test(skip=True)
    async def skipped(dut): ...
    if os.sep == "/":
        @c.test()
        async def below(dut): ...
    for number in (1, 2):
        @hdl_test(name=f"made_{number}")
        async def made(dut): ...
        globals()[f"made_{number}"] = made
    del made
    @test()
    class Uvm: ...
    @pyuvm.test(skip=True)
    class Skipped: ...
    def make():
        @c.test()
        async def inner(dut): ...
        return inner
    held = make()
    assigned = c.test(skip=False)(lambda dut: None)
    @decorated
    async def by_a_helper(dut): ...
    @c.parametrize((("p", "q"), [(1, 2), (3, 4)]))
    async def pairs(dut, p, q): ...
    plain = Test(func=kept.func, args=(), kwargs={}, name="plain", module=__name__, doc=None,
                 timeout=None, expect_fail=False, expect_error=(), skip=False, stage=0)
'''
SHARED = """
    import functools
    import cocotb
    @cocotb.test()
    async def borrowed(dut): ...
    def decorated(function):
        @cocotb.test()
        @functools.wraps(function)
        async def wrapper(dut): ...
        return wrapper
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """Import all modules of this file once, and return the answer of `_imported`."""
    folder = tmp_path_factory.mktemp("discover") / "t"
    texts = {f"test_{name}": f"import cocotb\n{one['text']}\n" for name, one in FAULTS.items()}
    for name, text in {**texts, **MODULES}.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return discover._imported(folder, "t")


def of_module(answer: Answer, name: str) -> Answer:
    """Return the part of an answer that concerns one module: its entry and its lost tests."""
    modules, lost = answer
    mine = [line for line in lost if line.startswith(f"t/{name}.py")]
    return [one for one in modules if one["path"] == f"t/{name}.py"], mine


def test_every_way_to_write_a_test(
    imported: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discover, "_imported", lambda *_: of_module(imported, "test_ways"))
    found = {test.name: test for test in discover.discover(tmp_path, "t")}
    # The class of pyuvm is registered before what follows it, as by cocotb.
    assert list(found) == [
        *("borrowed", "bare", "by_name", "only_values", "left_out", "kept", "fails", "skipped"),
        *("below", "made_1", "made_2", "Uvm", "Skipped", "make.<locals>.inner", "<lambda>"),
        *("by_a_helper", "pairs", "plain"),
    ]
    assert {name for name, test in found.items() if test.skip} == {"left_out", "skipped", "Skipped"}
    assert found["by_name"].summary == "The first line."
    values = found["only_values"]
    assert values.parameters == ("a", "b")
    assert values.cases[1] == "only_values/a=0/b=seven"
    assert len(values.cases) == 4
    assert found["pairs"].cases == ("pairs/p=1/q=2", "pairs/p=3/q=4")
    assert {test.module for test in found.values()} == {"t.test_ways"}
    lines = textwrap.dedent(WAYS).splitlines()
    at = {name: lines[test.place[1] - 1].strip() for name, test in found.items()}
    assert found["bare"].place[0] == "t/test_ways.py"
    assert [at[name] for name in ("bare", "by_name", "by_a_helper")] == [
        "@c.test",
        '@hdl_test(name="by_name", timeout_time=1, timeout_unit="ms", stage=3, expect_fail=True)',
        "@decorated",
    ]
    assert [t.name for t in discover.select([values], ["only_values/a=1"])] == ["only_values/a=1"]


FAULTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))

# Further modules by name. Tests of a module that is not a test module are lost.
MODULES = {
    "shared": SHARED,
    "test_ways": WAYS,
    "test_one": "import cocotb\n@cocotb.test()\nasync def one(dut): ...\n",
    "other": "import cocotb\n@cocotb.test()\nasync def elsewhere(dut): ...\n",
    "needs": "import absent\n@cocotb.test()\nasync def unseen(dut): ...\n",
    "sub/test_deep": "import cocotb\n@cocotb.test()\nasync def deep(dut): ...\n",
}


def test_what_cocotb_would_leave_out_is_named(imported: Answer) -> None:
    said = list(discover._faults(*imported))
    for name, one in FAULTS.items():
        wanted = one["says"]
        mine = [line for line in said if line.startswith(f"t/test_{name}.py")]
        assert len(mine) == bool(wanted), (name, mine)
        assert wanted in "".join(mine), (name, mine)
    assert any("t/other.py:2: cocotb never registers the test 'elsewhere'" in one for one in said)
    assert any("t/needs.py:2: cocotb never registers the test 'unseen'" in one for one in said)
    assert any("t/sub/test_deep.py:2: cocotb never" in one for one in said)
    assert all("\n" not in one for one in said)


@pytest.mark.parametrize("text", ["import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)"])
def test_a_module_that_ends_python_is_one_line(write: Write, tmp_path: Path, text: str) -> None:
    write("t/test_gone.py", text)
    with pytest.raises(NfError, match=r"^t/test_gone\.py: its import ends Python \(exit code"):
        discover.discover(tmp_path / "t", "t")


def test_packages_of_the_caller_are_not_those_of_the_project(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("t/test_x.py", "import cocotb, numpy\n@cocotb.test()\nasync def one(dut): ...\n")
    write("caller/numpy.py", "raise SystemExit")
    write("caller/sitecustomize.py", "print('hello')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "caller"))
    assert [test.name for test in discover.discover(tmp_path / "t", "t")] == ["one"]


def test_the_answer_is_kept_until_a_file_changes(
    imported: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that discovery imports again only after a file has changed, or its cache is damaged.

    The answer is faked: the name of the only test is the content of a file.
    """
    folder = tmp_path / "verif" / "t"
    folder.mkdir(parents=True)
    shared = folder / "shared.py"

    def answer(*_: object) -> Answer:
        [module], lost = of_module(imported, "test_one")
        name = shared.read_text(encoding="utf-8")
        tests = [{**test, "name": name, "cases": [name]} for test in module["tests"]]
        return [{**module, "tests": tests}], lost

    shared.write_text("one", encoding="utf-8")
    monkeypatch.setattr(discover, "ROOT", tmp_path)
    monkeypatch.setattr(discover, "TESTS", folder)
    monkeypatch.setattr(discover, "_KEPT", tmp_path / "build" / "tests.json")
    monkeypatch.setattr(discover, "_last", [])
    ask = Mock(side_effect=answer)
    monkeypatch.setattr(discover, "_imported", ask)

    def names() -> list[str]:
        return [test.name for test in discover.discover(folder, "t")]

    assert [names(), names()] == [["one"], ["one"]]
    discover._last.clear()  # as another process
    assert names() == ["one"]
    assert ask.call_count == 1
    shared.write_text("two and more", encoding="utf-8")
    with pytest.raises(NfError, match="a name has no space"):
        names()
    shared.write_text("two", encoding="utf-8")
    assert names() == ["two"]
    (tmp_path / "build/tests.json").write_text("{", encoding="utf-8")
    discover._last.clear()
    assert names() == ["two"]
    assert ask.call_count == 4
