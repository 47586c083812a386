# SPDX-License-Identifier: Apache-2.0
"""Test that a bulk run under Icarus ends with a fault if an output of the device is X."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.build import bulk_build
from scripts.common.records import Edit
from verif.host.bulk_device import BulkFault

UNKNOWN = {
    "control": (".irq,", ".irq (),", "an output that must be known is X"),
    "payload": (
        ".tx_flit,\n    .tx_ready",
        ".tx_flit (),\n    .tx_ready",
        "the device transfers an X",
    ),
}


@pytest.mark.parametrize("sim", ["icarus"])
@pytest.mark.parametrize(("old", "new", "text"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_an_unknown_output_is_found(
    tmp_path: Path, sim: str, old: str, new: str, text: str
) -> None:
    model = bulk_build.build(sim, edits=[Edit("hdl/nf_controller.sv", old, new)])
    with pytest.raises(BulkFault, match=text):
        model.open(tmp_path, 20, 1)
