# SPDX-License-Identifier: Apache-2.0
"""Server process on a cluster worker, started by `python -m scripts.farm.worker_server`.

It does the work that it is sent: it reads one request per text line from its input (see
`dask_worker.run`) and answers each with one line. At the end of its input it ends every simulator
and exits, also when the worker was killed. It runs in the sources that were sent.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
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
from scripts.common import folder_locks, process
from scripts.common.paths import BUILD, RUNS
from scripts.common.records import RunRecord, RunSpec
from scripts.farm.work import Work, not_run, versions
from scripts.run import run_folders

Variables = tuple[tuple[str, str], ...]


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """Do one piece of work.

    Args:
        request: As `dask_worker.run` completes it, with the paths on this machine.

    Returns:
        Dictionary with the ``record`` of the run, and its ``folder`` on this machine.
    """
    spec = RunSpec.from_json(request["spec"])
    spec = replace(spec, build=replace(spec.build, root=Path(request["root"])))
    given = dict(spec.env)
    spec = replace(spec, env=_received(spec.env, request["inputs"]))
    runs = folder_locks.folder(RUNS)
    if request["build"] and (lack := _lack(spec.build.sim, request["versions"])):
        record = not_run(spec, lack, runs)
    else:
        try:
            work: Work = pickle.loads(Path(request["work"]).read_bytes())
            record = work.run(spec, Path(request["build"]))
        except Exception as error:  # in what was sent, or on this machine: the next run may pass
            record = not_run(spec, f"{type(error).__name__}: {error}", runs)
    for variable, value in spec.env:
        record = _renamed(record, value, given[variable])
    return {"record": record.to_json(), "folder": str(runs / spec.id)}


def _received(env: Variables, inputs: dict[str, tuple[str, str]]) -> Variables:
    """Write the input files of a run here, and return its variables with the new paths.

    ``inputs`` is as `cluster.inputs` returns it.
    """
    here = {}
    for variable, (name, text) in inputs.items():
        folder = BUILD / run_folders.INPUTS / hashlib.sha256(text.encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        output.write_text(folder / name, text)
        here[variable] = str(folder / name)
    return tuple((variable, here.get(variable, value)) for variable, value in env)


def _renamed(record: RunRecord, here: str, there: str) -> RunRecord:
    """Return the record with the path of an input file replaced by its path on the sender."""
    if here == there:
        return record
    rerun = record.rerun.replace(shlex.quote(here), shlex.quote(there))
    return replace(record, rerun=rerun, cause=record.cause.replace(here, there))


def _lack(sim: str, wanted: dict[str, str]) -> str:
    """Return what this machine lacks to run a build, as text; "" if nothing.

    Args:
        sim: Name of the simulator.
        wanted: Versions that the build was made with.
    """
    here, host = versions(), os.uname().nodename
    for name, version in wanted.items():
        if here.get(name) != version:
            return (
                f"worker {host} has {name} {here.get(name)}, the build was made with {version}: "
                "install the same requirements there"
            )
    lack = registry.get(sim).lack_at_run()
    return f"worker {host} has {lack}" if lack else ""


def _read(requests: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        requests.put(line)
    process.kill_all()
    time.sleep(1.0)  # let the current run notice the end of its simulator
    os._exit(0)


def main() -> None:
    """Serve requests on stdin, with answers on stdout, until the input ends."""
    from cocotb_tools import config

    # The model contains the path of cocotb's libraries on the machine that built it.
    libraries = [str(config.libs_dir), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # other output must not be mistaken for an answer
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    while True:
        answer = serve(json.loads(requests.get()))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
