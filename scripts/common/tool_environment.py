# SPDX-License-Identifier: Apache-2.0
"""Environment of simulators, compilers, solvers and other tools: an allow-list.

A variable of the caller's shell may change what a tool does (COCOTB_RESOLVE_X makes a red test
green, CPATH another header), and no record would say so. Only what is listed here reaches them,
and each run records it. The code that starts a run sets what it needs in addition.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

# Where things are on this machine, and how much of it may be used.
_MACHINE = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ"),
    *("LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),
    *("TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
    *("LD_LIBRARY_PATH", "LIBPYTHON_LOC", "VIRTUAL_ENV", "YOWASP_CACHE_DIR"),
    *("CCACHE_DIR", "CCACHE_MAXSIZE", "CCACHE_DISABLE", "CCACHE_CONFIGPATH"),
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"),  # kernels that work on this processor
)
# What a user may set for a simulation: it says more, and does the same. NF_FUZZ_CASE marks
# processes.
_CHOSEN = (
    *("COCOTB_LOG_LEVEL", "GPI_LOG_LEVEL"),
    *("NF_BUILD", "NF_LINK_TRACE", "NF_RECORD", "NF_NATIVE", "NF_FUZZ_CASE"),
    *("NF_VERILATOR", "NF_ICARUS"),
)
ALLOWED = frozenset({*_MACHINE, *_CHOSEN})
# Variables with a meaning for simulations, which a user who set one expects to work.
_EXPECTED = (
    *("COCOTB_", "GPI_", "PYGPI_", "VERILATOR_", "IVERILOG_", "SIM_CMD_", "PYTHONOPTIMIZE"),
    *("WAVES", "GUI", "RANDOM_SEED", "TESTCASE", "NF_CHECKERS_OFF"),
)


def tools(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a tool: the allowed variables of this process, and ``more``."""
    return {**{k: v for k, v in os.environ.items() if k in ALLOWED}, **(more or {})}


def passed() -> tuple[tuple[str, str], ...]:
    """Return the variables of this process that reach a simulation, sorted pairs for its record."""
    return tuple(sorted(tools().items()))


def kept_out() -> list[str]:
    """Return a list with one line that names the variables that simulations do not get, or [].

    Only variables whose names suggest an effect on simulations are named, such as COCOTB_*.
    """
    names = [name for name in os.environ if name.startswith(_EXPECTED) and name not in ALLOWED]
    return [f"nf: simulations do not get {', '.join(sorted(names))} (docs/environment.md)"][
        : len(names)
    ]
