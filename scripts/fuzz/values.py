# SPDX-License-Identifier: Apache-2.0
"""Odd values for files and words, by name, as odd_values.yaml has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neuron_fabric.data import read_text
from scripts.common.data import parse_yaml

FORGED = "FORGED"
"""No line of output may begin with it: it follows line breaks in hostile texts."""
_TABLES = parse_yaml(read_text(Path(__file__).with_name("odd_values.yaml")))


def _text(value: Any) -> str:
    """A value of the file: a text, bytes that are not UTF-8, or pieces (``[text, times]``)."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return "".join(one if isinstance(one, str) else one[0] * one[1] for one in value)
    return str(value)


JSON, WORDS, YAML = (
    {key: _text(value) for key, value in _TABLES[name].items()}
    for name in ("json", "words", "yaml")
)
