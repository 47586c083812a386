# SPDX-License-Identifier: Apache-2.0
"""Ordinary memory and IDENTITY regions (plain memory with protection)."""

from verif.sequences.aggregate import IdentitySequence
from verif.sequences.mixed import PlainMemorySequence
from verif.tests.decorator import ALL, nf_test


@nf_test(PlainMemorySequence, profiles=ALL)
def plain_memory() -> None:
    """Check ordinary memory: writes, reads, poison, and invalidations (MemInv) without effect."""


@nf_test(PlainMemorySequence, profiles=ALL, lines=3, partial=1.0, others=0.0)
def partial_writes() -> None:
    """Check MemWrPtl to ordinary memory with every kind of byte enables."""


@nf_test(IdentitySequence, profiles=ALL)
def identity_region() -> None:
    """Check that an IDENTITY region is plain memory, which commits do not change."""


@nf_test(IdentitySequence, profiles=ALL, bind=True)
def identity_bind() -> None:
    """Check that BIND refuses writes of other LD-IDs in an IDENTITY region."""
