# SPDX-License-Identifier: Apache-2.0
"""Tests of the rules of the register map, and of numbers on which other parts rely."""

import pytest

from models.parameters import DeviceParams
from models.register_map import REG_MAP
from models.register_types import WORD_MASK, Counts, Field, FieldAccess, byte_mask

SMALL = DeviceParams(regions=3, slots=16, cnt_w=4, mem_lines_log2=12)


@pytest.mark.parametrize("params", [DeviceParams(), SMALL, DeviceParams(regions=16)])
def test_registers_do_not_overlap(params: DeviceParams) -> None:
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
    assert regs["VERSION"].reset == 0x0001_0002
    assert regs["PARAMS0"].reset == 8 << 24 | 256 << 8 | 8
    assert regs["PARAMS1"].reset == 32 << 24 | 64 << 16 | 64 << 8 | 20
    assert regs["DEVLOAD_THRESHOLD"].reset == 0x60_30_10
    assert regs["TX_FLIT"].address == 0x160
    assert regs["REGION[7].COMPLETE_LINES"].address == 0x400 + 7 * 0x40 + 0x2C
    assert regs["REGION[2].BASE_LO"].mask(FieldAccess.RW) == 0xFFFF_FFC0
    assert regs["REGION[2].LD_MASK"].reset == 0xFFFF
    assert regs["ERR_INFO"].access is FieldAccess.W1C
    assert regs["CTRL"].access is FieldAccess.PULSE
    assert regs["REGION[0].EPOCH"].access is FieldAccess.COMMIT
    assert len(REG_MAP.counters()) == 31


def test_parameters_scale_resets_and_widths() -> None:
    regs = REG_MAP.expand(SMALL)
    assert regs["PARAMS0"].reset == 4 << 24 | 16 << 8 | 3
    assert regs["FALLBACK"].mask(FieldAccess.W1C) == 0b111
    assert "REGION[3].STATUS" not in regs


def test_parameters_by_rtl_name() -> None:
    given = {"REGIONS": 3, "CNT_W": 4, "OTHER": 1}
    assert DeviceParams.from_rtl(given) == DeviceParams(regions=3, cnt_w=4)
    assert DeviceParams.from_rtl(DeviceParams(slots=16).as_rtl()) == DeviceParams(slots=16)


def test_words_by_field_names() -> None:
    config = REG_MAP.region_register("CONFIG")
    assert config.pack(MODE=2, STRICT=1, BIND=1) == 0x62
    fields = {"MODE": 2, "TIE_MINUS": 0, "STRICT": 1, "BIND": 1, "SIGNED": 0, "BIND_SHIFT": 0}
    fields["KEEP_SUM"] = 0
    assert config.unpack(0x62) == fields
    with pytest.raises(ValueError, match="does not fit"):
        config.pack(MODE=16)
    with pytest.raises(KeyError, match="no field"):
        config.pack(NOPE=1)
    with pytest.raises(KeyError, match="no register"):
        REG_MAP.region_register("NOPE")


def test_counters_by_kind() -> None:
    assert REG_MAP.counters(Counts.SLOTS) == ("SLOT_HIT", "SLOT_MISS", "EVICTION", "FILL")
    assert "CRC_ERROR" in REG_MAP.counters(Counts.LINK)
    assert len(REG_MAP.counters()) == sum(len(REG_MAP.counters(kind)) for kind in Counts)


@pytest.mark.parametrize(
    ("strobe", "bits"), [(0, 0), (0b0110, 0x00FF_FF00), (0b1001, 0xFF00_00FF), (15, WORD_MASK)]
)
def test_byte_mask(strobe: int, bits: int) -> None:
    assert byte_mask(strobe) == bits


def test_field_insert_and_extract() -> None:
    f = Field("F", lsb=4, width=3, access=FieldAccess.RW)
    assert f.insert(0xFFFF_FFFF, 0b010) == 0xFFFF_FFAF
    assert f.extract(0xFFFF_FFAF) == 0b010
    for wrong in (-1, 8):
        with pytest.raises(ValueError, match="does not fit"):
            f.insert(0, wrong)


def test_a_field_with_a_maximum_saturates() -> None:
    window = REG_MAP.expand(DeviceParams())["CAP_WINDOW"]
    for data, want in ((0, 0), (255, 255), (256, 256), (257, 256), (511, 256), (0xFFFF_FE03, 3)):
        assert window.stored(64, data) == want
    assert window.stored(0x40, 0x100, lanes=0xFF00) == 256, "the merged value counts"
    assert REG_MAP.expand(DeviceParams())["CAP_THRESHOLD"].stored(0, 511) == 511
