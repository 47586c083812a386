# SPDX-License-Identifier: Apache-2.0
"""Reads YAML that a schema describes; a mistake in it is one line that names file and place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from scripts.errors import NfError
from scripts.paths import SCHEMAS, shown


def load(path: Path, schema: str) -> dict[str, Any]:
    """Load `path` and check it against `scripts/schema/<schema>.json`."""
    try:
        data = yaml.safe_load(path.read_text())
    except OSError as error:
        raise NfError(f"cannot read {shown(path)}: {error.strerror}.") from error
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        raise NfError(f"{shown(path)}{line}: not YAML.") from error
    rules = json.loads((SCHEMAS / f"{schema}.json").read_text())
    validator = jsonschema.Draft202012Validator(rules)
    wrong = jsonschema.exceptions.best_match(validator.iter_errors(data))
    if wrong is not None:
        place = "/".join(str(part) for part in wrong.absolute_path) or "top level"
        raise NfError(f"{shown(path)}: {place}: {wrong.message[:160]}.")
    result: dict[str, Any] = data
    return result
