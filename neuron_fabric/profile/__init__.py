# SPDX-License-Identifier: Apache-2.0
"""Operating profiles: the route of each gradient of a model, by regions (sets of parameters)."""

from neuron_fabric.errors import ProfileError
from neuron_fabric.profile.model_sketch import Parameter, fingerprint, sketch, traced_head
from neuron_fabric.profile.profile_file import parse_profile, read_profile, write_profile
from neuron_fabric.profile.profile_types import Kind, PhaseRoute, Profile, Region

__all__ = [
    "Kind",
    "Parameter",
    "PhaseRoute",
    "Profile",
    "ProfileError",
    "Region",
    "fingerprint",
    "parse_profile",
    "read_profile",
    "sketch",
    "traced_head",
    "write_profile",
]
