# SPDX-License-Identifier: Apache-2.0
"""Tests of the figures that a pyuvm test may record; no simulator is used."""

import pytest

from verif.env.base_test import NfBaseTest
from verif.env.config import EnvConfig, Profile


def test_a_rate_comes_with_its_memory_latency() -> None:
    test = NfBaseTest("test", None)
    test.metrics = {}
    for profile, clocks in ((Profile.STREAMING, (3, 3)), (Profile.BACKPRESSURE, (2, 40))):
        test.cfg = EnvConfig(profile=profile)
        test.rate("write_lines_per_flit_time", 0.8)
        assert test.metrics == {
            "memory_latency_clocks_least": clocks[0],
            "memory_latency_clocks_most": clocks[1],
            "write_lines_per_flit_time": 0.8,
        }
    with pytest.raises(AssertionError, match="memory latency"):
        test.figure("read_lines_per_flit_time", 0.8)
