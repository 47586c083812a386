# SPDX-License-Identifier: Apache-2.0
"""Tests of byte strobes for AXI4-Lite writes, and of the parameters of the build; no simulator."""

import pytest

from models.parameters import DeviceParams
from verif.parameters import build_parameters, device_params
from verif.regs.axil import strobe_run


def test_parameters_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NF_PARAMETERS", raising=False)
    assert device_params() == DeviceParams()
    monkeypatch.setenv("NF_PARAMETERS", '{"REGIONS": 3, "CNT_W": 4, "OTHER": 1}')
    assert build_parameters()["OTHER"] == 1
    assert device_params() == DeviceParams(regions=3, cnt_w=4)


@pytest.mark.parametrize(
    ("strobe", "run"), [(0xF, (0, 4)), (0b0001, (0, 1)), (0b0110, (1, 2)), (0b1000, (3, 1))]
)
def test_strobe_run(strobe: int, run: tuple[int, int]) -> None:
    assert strobe_run(strobe) == run


@pytest.mark.parametrize("strobe", [0, 0b1010, 0b1001, 0x10])
def test_strobe_run_refuses(strobe: int) -> None:
    with pytest.raises(ValueError, match="strobe"):
        strobe_run(strobe)
