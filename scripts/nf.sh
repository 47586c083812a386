#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Set-up copies this to .venv/bin/nf. It runs the tree that it stands in, wherever that was copied
# or moved to: nothing here, and no path in .venv, names the folder where set-up ran.
here=$(dirname -- "$(readlink -f -- "$0")")
# Packages of the caller's PYTHONPATH are not those that are pinned, and -O drops assertions.
unset PYTHONOPTIMIZE
exec "$here/python" -c 'import os, sys
outside = {"", *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
sys.path[:] = [sys.argv.pop(1), *(path for path in sys.path if path not in outside)]
sys.argv[0] = "nf"  # for whom a lock keeps out
from scripts.cli.main import main
sys.exit(main())' "${here%/.venv/bin}" "$@"
