# SPDX-License-Identifier: Apache-2.0
"""The register map's own rules, and the figures that other parts rely on."""

from __future__ import annotations

import pytest

from verif.regs.axil import strobe_run
from verif.regs.nf_reg_map import REG_MAP
from verif.regs.regmap import WORD_MASK, Access, Field, HwParams, split_name

SMALL = HwParams(regions=3, slots=16, cnt_w=4, mem_lines_log2=12)


@pytest.mark.parametrize("params", [HwParams(), SMALL, HwParams(regions=16)])
def test_registers_do_not_overlap(params: HwParams) -> None:
    registers = REG_MAP.expand(params)
    addresses = [reg.address for reg in registers.values()]
    assert len(set(addresses)) == len(addresses)
    assert all(a % 4 == 0 and 0 <= a < 1 << 12 for a in addresses)
    for reg in registers.values():
        assert sum(f.mask for f in reg.fields) <= WORD_MASK
        assert reg.mask().bit_count() == sum(f.width for f in reg.fields), f"overlap in {reg.name}"


def test_known_registers() -> None:
    regs = REG_MAP.expand()
    assert regs["ID"].reset == 0x4E46_3031
    assert regs["VERSION"].reset == 0x0001_0001
    assert regs["PARAMS0"].reset == 8 << 24 | 64 << 8 | 8
    assert regs["PARAMS1"].reset == 32 << 24 | 64 << 16 | 64 << 8 | 20
    assert regs["DEVLOAD_THRESHOLD"].reset == 0x60_30_10
    assert regs["TX_FLIT"].address == 0x160
    assert regs["REGION[7].COMPLETE_LINES"].address == 0x400 + 7 * 0x40 + 0x2C
    assert regs["REGION[2].BASE_LO"].mask(Access.RW) == 0xFFFF_FFC0
    assert regs["REGION[2].LD_MASK"].reset == 0xFFFF
    assert regs["ERR_INFO"].access is Access.W1C
    assert regs["CTRL"].access is Access.PULSE
    assert regs["REGION[0].EPOCH"].access is Access.COMMIT
    assert sum(reg.is_counter for reg in regs.values()) == 28


def test_parameters_scale_resets_and_widths() -> None:
    regs = REG_MAP.expand(SMALL)
    assert regs["PARAMS0"].reset == 4 << 24 | 16 << 8 | 3
    assert regs["FALLBACK"].mask(Access.W1C) == 0b111
    assert "REGION[3].STATUS" not in regs


def test_parameters_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NF_PARAMETERS", raising=False)
    assert HwParams.from_environment() == HwParams()
    monkeypatch.setenv("NF_PARAMETERS", '{"REGIONS": 3, "CNT_W": 4, "OTHER": 1}')
    assert HwParams.from_environment() == HwParams(regions=3, cnt_w=4)


def test_field_insert_and_extract() -> None:
    f = Field("F", lsb=4, width=3, access=Access.RW)
    assert f.insert(0xFFFF_FFFF, 0b010) == 0xFFFF_FFAF
    assert f.extract(0xFFFF_FFAF) == 0b010
    for wrong in (-1, 8):
        with pytest.raises(ValueError, match="does not fit"):
            f.insert(0, wrong)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("IRQ_STATUS", ("IRQ_STATUS", None)),
        ("IRQ_STATUS.DONE", ("IRQ_STATUS", "DONE")),
        ("REGION[2].STATUS", ("REGION[2].STATUS", None)),
        ("REGION[2].STATUS.CODE", ("REGION[2].STATUS", "CODE")),
    ],
)
def test_split_name(name: str, parts: tuple[str, str | None]) -> None:
    assert split_name(name) == parts


@pytest.mark.parametrize("name", ["A.B.C", "REGION[1]", "REGION[0].STATUS.CODE.X"])
def test_split_name_refuses(name: str) -> None:
    with pytest.raises(KeyError, match="no register or field"):
        split_name(name)


def test_unknown_field() -> None:
    with pytest.raises(KeyError, match="no field"):
        REG_MAP.expand()["ID"].field("NOPE")


@pytest.mark.parametrize(
    ("strobe", "run"), [(0xF, (0, 4)), (0b0001, (0, 1)), (0b0110, (1, 2)), (0b1000, (3, 1))]
)
def test_strobe_run(strobe: int, run: tuple[int, int]) -> None:
    assert strobe_run(strobe) == run


@pytest.mark.parametrize("strobe", [0, 0b1010, 0b1001, 0x10])
def test_strobe_run_refuses(strobe: int) -> None:
    with pytest.raises(ValueError, match="strobe"):
        strobe_run(strobe)


def test_a_field_with_a_maximum_saturates() -> None:
    window = REG_MAP.expand(HwParams())["CAP_WINDOW"]
    for data, want in ((0, 0), (255, 255), (256, 256), (257, 256), (511, 256), (0xFFFF_FE03, 3)):
        assert window.stored(64, data) == want
    assert window.stored(0x40, 0x100, lanes=0xFF00) == 256, "the merged value counts"
    assert REG_MAP.expand(HwParams())["CAP_THRESHOLD"].stored(0, 511) == 511
