# SPDX-License-Identifier: Apache-2.0
"""Tests of the randomness check: it finds unseeded sources under every name, and no seeded one."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.checks import randomness, tracked_files
from scripts.common.paths import ROOT

UNSEEDED = [
    "import numpy as np\nnp.random.default_rng()",
    "import numpy as np\nnp.random.default_rng(seed=None)",
    "from numpy import random as r\nr.default_rng()",
    "from numpy.random import default_rng as draw\nmake = draw\nmake()",
    "import numpy as np\nnp.random.Generator(np.random.PCG64())",
    "import random\nrandom.Random()",
    "from random import Random as R\nR()",
    "from random import SystemRandom",
    "import random, time\nrandom.seed(time.time())",
    "import random, time\nseed = int(time.time_ns())\nrng = random.Random(seed ^ 3)",
    "import random, os\nrandom.Random(os.getpid())",
    "import random\nfrom datetime import datetime as d\nrandom.Random(d.now().microsecond)",
    "import random\nrandom.Random(id(object()))",
    "import secrets",
    "def f():\n    import secrets as s\n    return s.token_bytes(4)",
    "from os import urandom",
    "import os\nread = os.urandom",
    "import torch\ntorch.seed()",
    "import functools, random\nmake = functools.partial(random.Random)",
    "import numpy as np, collections\ncollections.defaultdict(np.random.default_rng)",
    "import random\nlist(map(random.Random, [None]))",
    "import random\nrng = random.Random(1)\nrng.seed()",
    "import random, threading\nrandom.Random(threading.get_ident())",
    "from hypothesis import strategies as st",
    "from random import *",
]
SEEDED = [
    "import random\nrandom.random()",  # the run seeds it
    "import numpy as np\nnp.random.randint(4)",
    "import random, cocotb\nrandom.Random(cocotb.RANDOM_SEED)",
    "import numpy as np\nnp.random.default_rng(7)",
    "import numpy as np\nnp.random.default_rng([1, 2])",
    "import numpy as np\ndef f(rng: np.random.Generator) -> None: rng.random()",
    "import random\nclass A:\n    rng: random.Random",
    "import time\nstart = time.time()",
    "import uuid\nuuid.uuid5(uuid.NAMESPACE_DNS, 'x')",
    "import os\nos.getpid()",
    "import functools, random\nmake = functools.partial(random.Random, 3)",
    "import random\nrng = random.Random(1)\nisinstance(rng, random.Random)\nrng.seed(2)",
    "def default_rng(): ...\ndefault_rng()",
]


@pytest.mark.parametrize("source", UNSEEDED)
def test_an_unseeded_source_is_found(source: str) -> None:
    assert randomness.found(source)


@pytest.mark.parametrize("source", SEEDED)
def test_a_seeded_source_is_not(source: str) -> None:
    assert randomness.found(source) == []


def test_no_run_seeds_the_globals_in_pytest() -> None:
    assert randomness.found(SEEDED[0], by_pytest=True)
    assert randomness.found(SEEDED[1], by_pytest=True)
    assert randomness.found("import hypothesis", by_pytest=True) == []
    assert randomness.found("import random\nrandom.Random(3)", by_pytest=True) == []


def test_only_the_testbench_is_meant(tmp_path: Path) -> None:
    for name in ("verif/tests/test_a.py", "models/b.py", "scripts/c.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("import random\nrandom.Random()\n", encoding="utf-8")
    said = randomness.violations(tmp_path, tracked_files.files(tmp_path, ".py"))
    assert [line.partition(":")[0] for line in said] == ["models/b.py", "verif/tests/test_a.py"]
    assert randomness.violations(ROOT, tracked_files.files(ROOT, ".py")) == []
