# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.farm.remote`: serves runs on another machine, in sources that were sent there.

Reads one request a line from its input (see `dask_worker.run`) and answers each with one line; at
the end of its input it ends every simulator, whatever the reason was. The build that was shipped
takes the place in the build cache where this machine would have put its own, so that a run finds it
as it finds any other.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import shlex
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from neuron_fabric import output
from scripts.build import registry
from scripts.build.build_cache import build_directory
from scripts.common import process, run_folders, toolchain
from scripts.common.paths import BUILD, RUNS
from scripts.common.records import SOLVER, RunRecord, RunSpec
from scripts.run import evidence, simulate

Variables = tuple[tuple[str, str], ...]


def versions() -> dict[str, str]:
    """What a build and the machine that runs it must agree on."""
    python = ".".join(str(part) for part in sys.version_info[:2])
    return {"Python": python, "cocotb": toolchain.package_version("cocotb") or "none"}


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """One run: {"record": .., "folder": where its files are}."""
    spec = RunSpec.from_json(request["spec"])
    spec = replace(spec, build=replace(spec.build, root=Path(request["root"])))
    given = dict(spec.env)
    spec = replace(spec, env=_received(spec.env, request["inputs"]))
    if spec.build.sim == SOLVER:
        record = _proof(spec, Path(request["parcel"]))
    elif lack := _lack(spec.build.sim, request["versions"]):
        record = simulate.infrastructure(spec, lack)
    elif request["parcel"]:
        record = _piece(spec, Path(request["build"]), Path(request["parcel"]))
    else:
        record = _run(spec, Path(request["build"]))
    for variable, value in spec.env:
        record = _told(record, value, given[variable])
    return {"record": record.to_json(), "folder": str(run_folders.folder(RUNS) / spec.id)}


def _received(env: Variables, inputs: dict[str, tuple[str, str]]) -> Variables:
    """Return variables of a run that name copies of the files that were sent (`cluster.inputs`)."""
    here = {}
    for variable, (name, text) in inputs.items():
        folder = BUILD / evidence.INPUTS / hashlib.sha256(text.encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        output.write_text(folder / name, text)
        here[variable] = str(folder / name)
    return tuple((variable, here.get(variable, value)) for variable, value in env)


def _told(record: RunRecord, here: str, there: str) -> RunRecord:
    """Return the record with the name that a file has where the run was asked for."""
    if here == there:
        return record
    rerun = record.rerun.replace(shlex.quote(here), shlex.quote(there))
    return replace(record, rerun=rerun, cause=record.cause.replace(here, there))


def _lack(sim: str, wanted: dict[str, str]) -> str:
    """What this machine has not; empty when it can run the build."""
    here, host = versions(), os.uname().nodename
    for name, version in wanted.items():
        if here.get(name) != version:
            return (
                f"worker {host} has {name} {here.get(name)}, the build was made with {version}: "
                "install the same requirements there"
            )
    lack = registry.get(sim).lack_at_run()
    return f"worker {host} has {lack}" if lack else ""


def _run(spec: RunSpec, shipped: Path) -> RunRecord:
    directory, _ = build_directory(spec.build)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # the run before this one was of the same build
        directory.symlink_to(shipped)
    return simulate.run(spec)


def _proof(spec: RunSpec, parcel: Path) -> RunRecord:
    from scripts.farm import proof_run  # much that no other run needs

    return proof_run.serve(spec, parcel)


def _piece(spec: RunSpec, shipped: Path, parcel: Path) -> RunRecord:
    from scripts.farm import piece_run  # much that no other run needs

    try:
        return piece_run.serve(spec, shipped, parcel)
    except Exception as error:  # of what was sent, or of this machine: the next piece may be better
        return simulate.infrastructure(spec, f"{type(error).__name__}: {error}")


def _read(requests: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        requests.put(line)
    process.kill_all()
    time.sleep(1.0)  # the run under way sees its simulator end
    os._exit(0)


def main() -> None:
    """Serve until the input ends."""
    from cocotb_tools import config

    # The model names the place of cocotb's libraries where it was built; here is where they are.
    libraries = [str(config.libs_dir), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything else prints must not be taken for an answer
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    while True:
        answer = serve(json.loads(requests.get()))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
