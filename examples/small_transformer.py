# SPDX-License-Identifier: Apache-2.0
"""A Transformer of two layers over characters, and the texts that come with Python."""

from __future__ import annotations

from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn import functional

LAYERS = 2


class TransformerBlock(nn.Module):
    """Attention and two linear layers, each behind a norm and beside a short cut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class SmallTransformer(nn.Module):
    """Characters to ``outputs`` numbers: at each place, which sees those before it (``causal``), or
    for the whole text."""

    def __init__(
        self, characters: int, outputs: int, width: int, length: int, heads: int, causal: bool
    ) -> None:
        super().__init__()
        self.causal = causal
        self.characters = nn.Embedding(characters, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(TransformerBlock(width, heads) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length, mask = x.shape[1], None
        if self.causal:
            mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        y = self.characters(x) + self.places(torch.arange(length))
        for block in self.blocks:
            y = block(y, mask)
        y = self.norm(y)
        return self.head(y if self.causal else y.mean(1))


def texts() -> list[str]:
    """The help texts of Python, in the order of their names."""
    return [topics[name] for name in sorted(topics)]


def alphabet(several: list[str]) -> dict[str, int]:
    """A number for each character."""
    return {one: n for n, one in enumerate(sorted(set("".join(several))))}
