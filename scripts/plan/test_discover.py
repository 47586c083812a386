# SPDX-License-Identifier: Apache-2.0
"""Discovery finds what cocotb registers, in every way to write a test, and names what is lost."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from scripts.common.errors import NfError
from scripts.plan import discover

Write = Callable[[str, str], Path]

WAYS = '''
    import os
    import cocotb as c
    from cocotb import test as hdl_test, Param
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


def test_every_way_to_write_a_test(write: Write, tmp_path: Path) -> None:
    write("t/shared.py", SHARED)
    write("t/test_ways.py", WAYS)
    found = {test.name: test for test in discover.discover(tmp_path / "t", "t")}
    # The class of pyuvm is registered before what follows it, as by cocotb.
    assert list(found) == [
        *("borrowed", "bare", "by_name", "only_values", "left_out", "kept", "fails", "skipped"),
        *("below", "made_1", "made_2", "Uvm", "Skipped", "make.<locals>.inner", "<lambda>"),
        *("by_a_helper", "pairs"),
    ]
    assert {name for name, test in found.items() if test.skip} == {"left_out", "skipped", "Skipped"}
    assert found["by_name"].summary == "The first line."
    values = found["only_values"]
    assert values.parameters == ("a", "b")
    assert values.cases[1] == "only_values/a=0/b=seven"
    assert len(values.cases) == 4
    assert found["pairs"].cases == ("pairs/p=1/q=2", "pairs/p=3/q=4")
    assert {test.module for test in found.values()} == {"t.test_ways"}
    assert [t.name for t in discover.select([values], ["only_values/a=1"])] == ["only_values/a=1"]


# What stands in a module, and what is said of it.
FAULTS = {
    "bound_again": (
        "for n in (1, 2):\n    @cocotb.test(name=f'made_{n}')\n    async def made(dut): ...",
        ":3: cocotb never registers the test 'made_1'",
    ),
    "below_false": (
        "if not cocotb:\n    @cocotb.test()\n    async def below(dut): ...",
        ":3: cocotb never registers the test 'below'",
    ),
    "in_a_class": (
        "class Suite:\n    @cocotb.test()\n    async def one(dut): ...",
        ":3: cocotb never registers the test 'Suite.one'",
    ),
    "in_a_function": (
        "def helper():\n    from cocotb import test\n    @test\n    async def one(dut): ...",
        ":4: cocotb never registers the test 'one'",
    ),
    "deleted": (
        "@cocotb.test()\nasync def one(dut): ...\ndel one",
        ":2: cocotb never registers the test 'one'",
    ),
    "two_names": (
        "@cocotb.test()\nasync def one(dut): ...\nother = one",
        ": cocotb registers 2 tests named 'one'",
    ),
    "equal_values": (
        "@cocotb.parametrize(n=[1, 1])\nasync def one(dut, n): ...",
        ": cocotb registers 2 tests named 'one/n=1'",
    ),
    "no_values": (
        "@cocotb.parametrize(n=[])\nasync def one(dut, n): ...",
        ": test 'one' never runs: a parameter has no values",
    ),
    "odd_name": (
        "@cocotb.test(name='a/b')\nasync def one(dut): ...",
        ": test 'a/b': a name has no space",
    ),
    "no_name": ("@cocotb.test(name='')\nasync def one(dut): ...", ": test '': a name has no space"),
    "number": ("@cocotb.test(name=5)\nasync def one(dut): ...", ": TypeError: "),
    "not_found": ("import nothing_of_that_name", ":2: cannot be imported without a simulator"),
    "needs_design": ("if cocotb.top.USED: ...", ":2: cannot be imported without a simulator"),
    "ends": ("import sys\nsys.exit(3)", ":3: cannot be imported without a simulator: SystemExit"),
    "prints": ("print('no JSON')\nimport os\nos.write(1, b'no JSON')", ""),
}


def test_what_cocotb_would_leave_out_is_named(write: Write, tmp_path: Path) -> None:
    for name, (text, _) in FAULTS.items():
        write(f"t/test_{name}.py", f"import cocotb\n{text}\n")
    write("t/other.py", "import cocotb\n@cocotb.test()\nasync def elsewhere(dut): ...\n")
    write("t/needs.py", "import absent\n@cocotb.test()\nasync def unseen(dut): ...\n")
    write("t/sub/test_deep.py", "import cocotb\n@cocotb.test()\nasync def deep(dut): ...\n")
    modules, end = discover._imported(tmp_path / "t", "t")
    said = list(discover._faults(modules, end["lost"]))
    for name, (_, wanted) in FAULTS.items():
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


def test_the_answer_is_kept_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "shared.py").write_text("names = ['one']\n", encoding="utf-8")
    (folder / "test_x.py").write_text(
        textwrap.dedent("""
            import cocotb
            from t.shared import names
            @cocotb.test(name=names[0])
            async def x(dut): ...
        """),
        encoding="utf-8",
    )
    monkeypatch.setattr(discover, "TESTS", folder)
    monkeypatch.setattr(discover, "_KEPT", tmp_path / "build" / "tests.json")
    ask = Mock(side_effect=discover._imported)
    monkeypatch.setattr(discover, "_imported", ask)

    def names() -> list[str]:
        return [test.name for test in discover.discover(folder, "t")]

    assert [names(), names()] == [["one"], ["one"]]
    discover._last.clear()  # as another process
    assert names() == ["one"]
    assert ask.call_count == 1
    (folder / "shared.py").write_text("names = ['two and more']\n", encoding="utf-8")
    with pytest.raises(NfError, match="a name has no space"):
        names()
    (folder / "shared.py").write_text("names = ['two']\n", encoding="utf-8")
    assert names() == ["two"]
    (tmp_path / "build/tests.json").write_text("{", encoding="utf-8")
    discover._last.clear()
    assert names() == ["two"]
