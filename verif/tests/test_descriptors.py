# SPDX-License-Identifier: Apache-2.0
"""Descriptors that a commit must refuse, each with its code."""

from verif.sequences.descriptors import DescriptorErrorSequence
from verif.tests.decorator import ALL, nf_test


@nf_test(DescriptorErrorSequence, profiles=ALL, shows="test_descriptors::descriptor_errors")
def descriptor_errors() -> None:
    """Check the code of each refused commit; of several faults the lowest code is reported."""
