# SPDX-License-Identifier: Apache-2.0
"""Parameters of the simulated build, as the runner passes them."""

from __future__ import annotations

import os

from models.parameters import DeviceParams
from neuron_fabric.data import as_object, parse_json


def build_parameters() -> dict[str, int]:
    """Return the RTL parameters that differ from the defaults (NF_PARAMETERS, a JSON object {name:
    value}).
    """
    given = as_object(parse_json(os.environ.get("NF_PARAMETERS") or "{}"))
    return {name: int(value) for name, value in given.items()}


def device_params() -> DeviceParams:
    """Return the device parameters of the build."""
    return DeviceParams.from_rtl(build_parameters())
