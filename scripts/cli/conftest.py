# SPDX-License-Identifier: Apache-2.0
"""A command of `nf` in the process of a test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scripts.cli.main import main

Nf = Callable[..., str]


@pytest.fixture
def nf(capfd: pytest.CaptureFixture[str]) -> Nf:
    """Return a function that runs a command, which must end with exit code `code`.

    It returns stdout for code 0, stderr, with one line of `nf`, for code 2, and both for others.
    """

    def run(*words: object, code: int = 0) -> str:
        capfd.readouterr()
        try:
            ended = main([*map(str, words)])
        except SystemExit as error:  # argparse
            ended = int(error.code or 0)
        out, err = capfd.readouterr()
        assert ended == code, err
        assert code != 2 or sum(line.startswith("nf") for line in err.splitlines()) == 1
        return {0: out, 2: err}.get(code, out + err)

    return run
