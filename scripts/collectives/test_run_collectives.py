# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf collectives run`: what it simulates, and what it refuses."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

import pytest

from scripts.collectives import run_collectives
from scripts.common.errors import NfError
from scripts.common.records import RunSpec
from verif.fabric.drawn_collectives import VARIABLE


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    run_collectives.add_arguments(parser)
    return parser.parse_args(words)


def test_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[RunSpec] = []

    def execute(specs: Sequence[RunSpec], *_: object, **__: object) -> int:
        found.extend(specs)
        return 0

    monkeypatch.setattr(run_collectives, "execute", execute)
    words = ("all_gather", "--hosts", "3", "--devices", "1", "--seeds", "2", "--sim", "verilator")
    assert run_collectives.run(parsed(*words)) == 0
    assert [spec.seed for spec in found] == [1, 2]
    assert {dict(spec.build.parameters)["DEVICES"] for spec in found} == {1}
    [env] = {spec.env for spec in found}
    assert dict(env) == {VARIABLE: '{"names": ["all_gather"], "hosts": 3, "lines": null}'}
    _, *again = shlex.split(found[1].rerun)
    assert again[:2] == ["collectives", "run"]
    assert run_collectives.run(parsed(*again[2:])) == 0
    assert found[2:] == found[:2], "the printed command runs something else"


def test_unknown_name() -> None:
    with pytest.raises(NfError, match="no collective 'all_gathr'; did you mean 'all_gather'"):
        run_collectives.run(parsed("all_gathr"))


@pytest.mark.parametrize("hosts", ["1", "17"])
def test_hosts_out_of_range(hosts: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parsed("all_gather", "--hosts", hosts)
    assert f"'{hosts}' is not a number from 2 to 16" in capsys.readouterr().err
