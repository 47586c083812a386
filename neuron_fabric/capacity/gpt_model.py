# SPDX-License-Identifier: Apache-2.0
"""GPT models for the shapes of their parameters, on the meta device without memory; needs torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class SelfAttention(nn.Module):
    """Causal self-attention of GPT-2: one projection in, one out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj, self.out_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.in_proj(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).reshape(batch, length, width))


class GptBlock(nn.Module):
    """Pre-norm block of GPT-2: attention and a perceptron of four times the width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), SelfAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """Decoder of GPT-2 with the head tied to the embedding; only its parameter shapes are used."""

    def __init__(self, layers: int, width: int, tokens: int, length: int) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(GptBlock(width, width // 64) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Any) -> Any:
        places = torch.arange(x.shape[1], device=x.device)
        y = self.blocks(self.embedding(x) + self.position(places))
        return self.head(self.norm(y))


SHAPES = {"gpt-124m": (12, 768, 50_257, 1024), "gpt-1.3b": (24, 2048, 50_257, 2048)}
"""Layers, width, tokens and length by the name of the model."""


def made(name: str) -> tuple[Any, Any]:
    """Return a model of `SHAPES` by name, and an input for it, both on the meta device."""
    with torch.device("meta"):
        return Gpt(*SHAPES[name]), torch.zeros((1, 8), dtype=torch.long)
