#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Set-up copies this to .venv/bin/nf. It runs the tree that it stands in, wherever that was copied
# or moved to: nothing here, and no path in .venv, names the folder where set-up ran.
here=$(dirname -- "$(readlink -f -- "$0")")
exec "$here/python" -c 'import sys
sys.path[:] = [sys.argv.pop(1), *filter(None, sys.path)]
sys.argv[0] = "nf"  # for whom a lock keeps out
from scripts.cli.main import main
sys.exit(main())' "${here%/.venv/bin}" "$@"
