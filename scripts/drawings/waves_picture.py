# SPDX-License-Identifier: Apache-2.0
"""Picture of `nf waves` for the documents: docs/waves.png.

`python -m scripts.drawings.waves_picture` breaks a copy of the RTL as the tutorial "From red to the
signal" does, runs a test, opens its waves in GTKWave on a virtual display and saves the screen.
Needs gtkwave, Xvfb and ImageMagick (apt-get install gtkwave xvfb imagemagick).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from neuron_fabric.errors import say
from scripts.build import registry
from scripts.checks.tutorials import copy_tree
from scripts.common import process
from scripts.common.errors import NfError, run_main
from scripts.common.paths import ROOT

PROGRAMS = ("gtkwave", "Xvfb", "import")
BUG = ("hdl/engine/nf_vote.sv", "8'(tie_minus)", "8'(!tie_minus)")
TEST = "test_modes::g_binary"
DISPLAY, SCREEN, PATIENCE_S = ":97", "1600x900x24", 20.0


def main() -> int:
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        raise NfError(f"{', '.join(missing)}: not installed (gtkwave, xvfb, imagemagick).")
    with tempfile.TemporaryDirectory(prefix="nf-waves-") as folder:
        tree = Path(folder) / "neuron-fabric"
        copy_tree(tree)
        name, old, new = BUG
        text = (tree / name).read_text(encoding="utf-8")
        (tree / name).write_text(text.replace(old, new), encoding="utf-8")
        nf = str(tree.joinpath(".venv", "bin", "nf"))
        quick = next(one.name for one in registry.simulators() if not one.compiles_slowly)
        if process.captured([nf, "run", TEST, "--sim", quick], cwd=tree).returncode != 1:
            raise NfError(f"{name} with {new} does not fail.")
        env = {**os.environ, "DISPLAY": DISPLAY}
        screen = subprocess.Popen(["Xvfb", DISPLAY, "-screen", "0", SCREEN])
        try:
            time.sleep(1.0)
            viewer = subprocess.Popen([nf, "waves", "--viewer", "gtkwave"], cwd=tree, env=env)
            time.sleep(PATIENCE_S / 2)
            crop = ["-crop", "1600x850+0+50", "+repage"]  # without the title and its path
            picture = ["import", "-window", "root", *crop, str(ROOT / "docs/waves.png")]
            subprocess.run(picture, env=env, check=True, timeout=PATIENCE_S)
            viewer.terminate()
        finally:
            screen.terminate()
            screen.wait()
    say("docs/waves.png")
    return 0


if __name__ == "__main__":
    run_main("waves_picture", main)
