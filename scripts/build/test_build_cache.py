# SPDX-License-Identifier: Apache-2.0
"""Tests that a build whose files were damaged is made again, and that a line reports it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from scripts.build import bulk_build, registry
from scripts.build.build_cache import STAMP, build_directory, once
from scripts.conftest import QUICK, Toy
from verif.host import test_host

Spoil = Callable[[Path], object]
SPOIL: dict[str, tuple[str, Spoil]] = {
    "cut": ("other", lambda path: path.write_bytes(path.read_bytes()[:-1])),
    "empty": ("other", lambda path: path.write_bytes(b"")),
    "gone": ("other", Path.unlink),
    "changed": ("other", lambda path: path.write_bytes(b"X" + path.read_bytes()[1:])),
}
STAMPS = ("", "{", "[]", "{}", '{"seconds": "x"}', '{"seconds": NaN}', "[" * 9999)
SPOIL |= {
    f"stamp {text[:16]}": (STAMP, partial(Path.write_text, data=text, encoding="utf-8"))
    for text in STAMPS
}


@pytest.mark.parametrize(("name", "spoil"), SPOIL.values(), ids=SPOIL.keys())
def test_a_damaged_build_is_made_again(
    tmp_path: Path, name: str, spoil: Spoil, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that a damaged product or stamp leads to a new build, with one line that names it."""
    made: list[Path] = []

    def make(folder: Path) -> dict[str, str]:
        made.append(folder)
        for product in ("library", "other"):
            (folder / product).write_bytes(b"\x7fELF" + bytes(100))
        return {"top": "x", "sim": "icarus"}

    def build() -> bool:
        return once(tmp_path / "build", make, ["library", "other"]).cached

    assert [build(), build()] == [False, True]
    assert capsys.readouterr().err == ""
    spoil(tmp_path / "build" / name)
    assert [build(), build()] == [False, True]
    (line,) = capsys.readouterr().err.splitlines()
    assert f"is made again: {name}" in line
    assert len(made) == 2


def test_what_a_run_loads_is_a_product(toy: Toy) -> None:
    """Check that a damaged simulation binary is noticed before a run, and built again."""
    assert toy.run(toy.spec(), "adds_one").passed
    folder = build_directory(toy.spec(), toy.folder / "sim")[0]
    (folder / ("sim.vvp" if QUICK == "icarus" else "toy")).write_bytes(b"")
    assert toy.run(toy.spec(), "adds_one").passed


def test_the_host_library_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the libraries of bulk replay are products of their builds, so damage is noticed.

    They are loaded into this process: an empty one would end it by a bus error (signal 7).
    """
    seen: list[tuple[str, ...]] = []

    def watch(_: Path, __: object, products: tuple[str, ...]) -> None:
        seen.append(tuple(products))
        raise KeyboardInterrupt

    monkeypatch.delenv("NF_BULK_QUICK", raising=False)
    for module in (bulk_build, test_host):
        monkeypatch.setattr(module, "once", watch)
    with pytest.raises(KeyboardInterrupt):
        test_host.build_host()
    for sim in registry.names():
        with pytest.raises(KeyboardInterrupt):
            bulk_build.build(sim)
    host, *models = seen
    assert host == (test_host.HOST_LIBRARY,)
    assert {name for names in models for name in names} == {
        *(bulk_build.LIBRARY, bulk_build.DESIGN, f"{bulk_build.VPI_MODULE}.vpi"),
    }
