# SPDX-License-Identifier: Apache-2.0
"""Ordinary memory and IDENTITY regions."""

from __future__ import annotations

from verif.sequences.aggregate import IdentitySequence
from verif.sequences.mixed import PlainMemorySequence
from verif.tests.decorator import ALL, nf_test


@nf_test(PlainMemorySequence, profiles=ALL)
def plain_memory() -> None:
    """Ordinary memory: writes, reads, poison, invalidations."""


@nf_test(PlainMemorySequence, profiles=ALL, lines=3, partial=1.0, others=0.0)
def partial_writes() -> None:
    """MemWrPtl with every kind of byte enables."""


@nf_test(IdentitySequence, profiles=ALL)
def identity_region() -> None:
    """An IDENTITY region is plain memory, whatever the epoch."""


@nf_test(IdentitySequence, profiles=ALL, bind=True)
def identity_bind() -> None:
    """BIND holds in an IDENTITY region too."""
