# SPDX-License-Identifier: Apache-2.0
"""Parameters of the simulated build, from the environment of the simulator process."""

import os

from models.parameters import DeviceParams
from neuron_fabric.data import as_object, parse_json


def build_parameters() -> dict[str, int]:
    """Return the RTL parameters of the build that differ from their defaults, by name.

    They come from NF_PARAMETERS, a JSON object; {} if it is not set.
    """
    given = as_object(parse_json(os.environ.get("NF_PARAMETERS") or "{}"))
    return {name: int(value) for name, value in given.items()}


def device_params() -> DeviceParams:
    """Return the parameters of the device in the simulated build."""
    return DeviceParams.from_rtl(build_parameters())
