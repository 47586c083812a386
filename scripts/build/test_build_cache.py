# SPDX-License-Identifier: Apache-2.0
"""A build whose files are not as they were made is made again, and a line says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.build import bulk_build, registry
from scripts.build.build_cache import build_directory, once
from scripts.conftest import QUICK, Toy
from verif.host import test_host

Spoil = Callable[[Path], object]
SPOIL: dict[str, Spoil] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": Path.unlink,
    "changed": lambda path: path.write_bytes(b"X" + path.read_bytes()[1:]),
}


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL.keys())
def test_a_damaged_product(
    tmp_path: Path, spoil: Spoil, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Path] = []

    def make(folder: Path) -> dict[str, str]:
        made.append(folder)
        for name in ("library", "other"):
            (folder / name).write_bytes(b"\x7fELF" + bytes(100))
        return {}

    def build() -> bool:
        return once(tmp_path / "build", make, ["library", "other"]).cached

    assert [build(), build()] == [False, True]
    assert capsys.readouterr().err == ""
    spoil(tmp_path / "build" / "other")
    assert [build(), build()] == [False, True]
    (line,) = capsys.readouterr().err.splitlines()
    assert "is made again: other" in line
    assert len(made) == 2


def test_what_a_run_loads_is_a_product(toy: Toy) -> None:
    """The files that the simulator is started with are the ones that are looked at."""
    assert toy.run(toy.spec(), "adds_one").passed
    folder = build_directory(toy.spec(), toy.folder / "sim")[0]
    (folder / ("sim.vvp" if QUICK == "icarus" else "toy")).write_bytes(b"")
    assert toy.run(toy.spec(), "adds_one").passed


def test_the_host_library_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What bulk replay loads into this process: an empty file there would be signal 7."""
    seen: list[tuple[str, ...]] = []

    def watch(_: Path, __: object, products: tuple[str, ...]) -> None:
        seen.append(tuple(products))
        raise KeyboardInterrupt

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
        *(bulk_build.LIBRARY, bulk_build.UNCHECKED),
        *(bulk_build.DESIGN, f"{bulk_build.VPI_MODULE}.vpi"),
    }
