# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or not there: a crash or a full disk never leaves half of one."""

from __future__ import annotations

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write beside `path`, then rename. The old file stays when anything fails (OSError)."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
