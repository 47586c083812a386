# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.checks.audit`: look for known vulnerabilities of the pinned packages.

pip-audit asks PyPI about each pin of the lock files that this Python installs. A pin that PyPI does
not know is red too: a mirror without advisories answers so, and pip-audit itself is then green.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from neuron_fabric.data import DataError, as_object, parse_json
from neuron_fabric.errors import say
from scripts.checks import requirements
from scripts.common import process
from scripts.common.errors import NfError, run_main
from scripts.common.paths import ROOT

# PyPI lists the advisories of torch 2.13.0, not those of its build 2.13.0+cpu.
_LOCAL = re.compile(r"(?<===)([\w.]+)\+\w+")


def main() -> int:
    """Print each known vulnerability, and a closing line; return 1 if the audit is not clean.

    Raises:
        NfError: pip-audit is not installed, or no advisory service can be reached.
    """
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
    command += ["--progress-spinner=off", "--format=json"]
    with tempfile.TemporaryDirectory() as folder:
        for lock in requirements.LISTS.values():
            text = (ROOT / lock).read_text(encoding="utf-8")
            Path(folder, lock).write_text(_LOCAL.sub(r"\1", text), encoding="utf-8")
            command += ["--requirement", str(Path(folder, lock))]
        done = process.captured(command)
    try:
        pins = as_object(parse_json(done.stdout))["dependencies"]
    except DataError:
        why = (done.stderr.strip() or "no output").splitlines()[-1]
        todo = "run `scripts/setup.sh --release` where pypi.org can be reached"
        raise NfError(f"pip-audit got no advisories ({why[:300]}); {todo}.") from None
    known = [
        f"{pin['name']} {pin['version']}: {one['id']}, "
        f"fixed in {', '.join(one['fix_versions']) or 'no version'}"
        for pin in pins
        for one in pin.get("vulns", ())
    ]
    unknown = [pin["name"] for pin in pins if "skip_reason" in pin]
    say(*(f"audit: {line}" for line in known))
    if unknown:
        say(
            f"audit: PyPI has no answer on {len(unknown)} pins ({', '.join(unknown[:3])}, ...): "
            "is pypi.org a mirror here?"
        )
    say(f"audit: {len(pins)} pins, {len(known)} known vulnerabilities, {len(unknown)} not audited")
    return int(bool(known or unknown or not pins))


if __name__ == "__main__":
    run_main("audit", main)
