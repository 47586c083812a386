# SPDX-License-Identifier: Apache-2.0
"""`python case_host.py FD`: imports what is large and nothing of the project, then forks once for
each request on a socket and runs pytest there: of most cases, imports are most of the time.

A request is a line: folder, log and arguments of pytest, with \\x1f between them; the answer is the
exit code. The project is imported from the folder, which is a copy with a mutant.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
from contextlib import suppress

LARGE = (
    *("pytest", "numpy", "hypothesis", "hypothesis.strategies", "safetensors.numpy"),
    *("jsonschema", "yaml", "torch", "torch.distributed", "torch.nn.parallel"),
)


def main(fd: int) -> None:
    """Serve until the other end is closed."""
    for name in LARGE:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    with socket.socket(fileno=fd) as link, link.makefile(encoding="utf-8") as requests:
        for line in requests:
            folder, log, *words = line.removesuffix("\n").split("\x1f")
            pid = os.fork()
            if pid == 0:
                _case(folder, log, words)
            _, status = os.waitpid(pid, 0)
            link.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _case(folder: str, log: str, words: list[str]) -> None:
    """Run the case in the fork, and end the fork."""
    code = 70
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        for fd in (1, 2):
            os.dup2(out, fd)
        os.chdir(folder)
        sys.path.insert(0, folder)  # before the checkout, as `python -m` has it
        sys.argv = ["pytest", *words]
        code = int(importlib.import_module("pytest").main(words))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    del sys.path[0]  # this folder
    main(int(sys.argv[1]))
