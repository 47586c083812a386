# SPDX-License-Identifier: Apache-2.0
"""Register map of the controller, read from `nf_regs.json`.

`python -m verif.regs.generate` writes that file.
"""

from pathlib import Path

from models.register_types import RegMap
from neuron_fabric.data import read_json
from neuron_fabric.typed import typed

_DATA = Path(__file__).with_name("nf_regs.json")
REG_MAP: RegMap = typed(RegMap, read_json(_DATA), _DATA.name)
