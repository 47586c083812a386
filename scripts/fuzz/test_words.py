# SPDX-License-Identifier: Apache-2.0
"""Fuzz cases of command lines, environment variables and names of files."""

from __future__ import annotations

from scripts.fuzz import setup
from scripts.fuzz.fuzz_case import FuzzCase, group
from scripts.fuzz.setup import OUT, REPLAY, undamaged
from scripts.fuzz.test_files import TRACE, words
from scripts.fuzz.values import WORDS

NAMES = {
    "blank": "a b",
    "hash": "a#b",
    "colon": "a:b",
    "umlaut": "größe",
    "dash": "-x",
    "dollar": "a$b",
    "quote": "a'b",
    "line break": "a\nFORGED",
    "escape": "\x1b[2Jx",
    "right to left": "a\u202eb",
    "percent": "%s",
}
"""Names of folders that a terminal, a shell or make would take as something else."""
OUTPUTS = {
    "blank": "a b.safetensors",
    "umlaut": "größe",
    "missing": "missing/x",
    "folder": "folder",
    "slash": "folder/",
    "null device": "/dev/null",
    "full device": "/dev/full",
    "capture": "c/x.safetensors",
    "line break": "a\nFORGED",
    "escape": "\x1b[2Jx",
    "below a file": "decoy.txt/x",
    "dash": "-",
}
SIM = ("replay", "c", "--sim", "icarus")
DRY_RUN = ("run", "test_regs::unmapped", "--dry-run")


@group(
    "bad input",
    take=120,
    option=words(
        "--steps --route --sim --ternary-ratio --threshold --seed --param --timeout --shard "
        "--merge --workers --synthetic --nonfinite --tie --transport --jobs --memory-latency "
        "--memory-beat --memory-stall --rounding --sums"
    ),
    word=WORDS,
)
def test_words_replay(case: FuzzCase, option: str, word: str) -> None:
    """Any word after an option of nf replay."""
    setup.capture(case.folder)
    case.run(*SIM, option, word, build=True)


@group(
    "bad input",
    transport=["signal", "bulk"],
    parameter=words(
        "REGIONS=0 REGIONS=17 SLOTS=0 SLOTS=3 SLOTS=48 SLOTS=512 CNT_W=0 CNT_W=9 "
        "MEM_LINES_LOG2=7 MEM_LINES_LOG2=39 RETRY_DEPTH=21 RETRY_DEPTH=256 REQ_CREDITS=1 "
        "REQ_CREDITS=256 RWD_CREDITS=1 RWD_CREDITS=256 TERN5=2"
    ),
)
def test_parameters(case: FuzzCase, transport: str, parameter: str) -> None:
    """A design that would not start is refused before it is built."""
    setup.capture(case.folder)
    case.run(*SIM, "--transport", transport, "--param", parameter, exit=[2])


@group(
    "bad input",
    take=40,
    option=words("--only --lines --memory-latency --memory-beat --memory-stall --sim"),
    word=WORDS,
)
def test_words_bench(case: FuzzCase, option: str, word: str) -> None:
    """Any word after an option of nf measure bench, with a row that does not exist."""
    bench = ("measure", "bench", "misses")
    case.run(*bench, option, word, "--only", "no such row", exit=[2])


@group(
    "bad input",
    take=40,
    option=words("--device --sim --workers --socket --timeout --param --memory-latency"),
    word=WORDS,
)
def test_words_serve(case: FuzzCase, option: str, word: str) -> None:
    """Any word after an option of nf serve, where no server answers."""
    case.run("serve", "--status", "no/server", option, word, exit=[2])


@group("bad input", word=words("0-999999 0-999999999 5- 999999 1000000 9-1"))
def test_words_synthetic(case: FuzzCase, word: str) -> None:
    """The number of drawn steps has a limit."""
    drawn = ("replay", "--synthetic", "resnet18", "--workers", "1", "--transport", "bulk")
    case.run(*drawn, "--sim", "icarus", "--shard", "9999/9999", "--steps", word, exit=[2])


@group(
    "bad input",
    take=70,
    option=words("--seed --seeds --until-fail --jobs --timeout --scale --build --changed --sim"),
    word=WORDS,
)
def test_words_run(case: FuzzCase, option: str, word: str) -> None:
    """Any word after an option of nf run."""
    case.run(*DRY_RUN, option, word)


@group("hostile", take=40, option=words("--changed --cluster --suite --build"), word=WORDS)
def test_words_joined(case: FuzzCase, option: str, word: str) -> None:
    """A word that looks like an option reaches no other program as one."""
    case.run(*DRY_RUN, f"{option}={word}")


@group(
    "bad input",
    take=80,
    verb={
        name: name.split(", ")
        for name in ("list", "history", "rerun", "report", "replay", "capture", "report, flits")
        + ("completion", "doctor", "nonsense")
    },
    word=WORDS,
)
def test_words_verbs(case: FuzzCase, verb: list[str], word: str) -> None:
    """Any word after a verb."""
    case.run(*verb, word)


@group("bad input", take=25, option=words("--sim --result --of --last"), word=WORDS)
def test_words_history(case: FuzzCase, option: str, word: str) -> None:
    """Any word after an option of nf history."""
    setup.history(case.folder)
    case.run("history", option, word)


@group("bad input", take=30, option=words("--workers --steps --ranks --layers"), word=WORDS)
def test_words_capture(case: FuzzCase, option: str, word: str) -> None:
    """Any word after an option of nf capture."""
    setup.text(case.folder, "s.py", "pass\n")
    case.run("capture", option, word, "--out", "o", "s.py", exit=[2])


@group("bad input", take=20, option=words("--first --last --direction"), word=WORDS)
def test_words_flits(case: FuzzCase, option: str, word: str) -> None:
    """Any word after an option of nf report flits."""
    setup.text(case.folder, "t", TRACE)
    case.run("report", "flits", "t", option, word)


@group("bad input", take=14, word=WORDS)
def test_route_globs(case: FuzzCase, word: str) -> None:
    """Patterns of tensor names, also those that take long in other matchers."""
    setup.capture(case.folder)
    case.run(*SIM, "--transport", "bulk", "--route", f"{word}=G_BINARY", build=True)


@group(
    "bad input",
    glob=["test_descriptors::*/profile=*", "test_descriptors::*/*", "*/(a+)+$", "*/="],
)
def test_test_globs(case: FuzzCase, glob: str) -> None:
    """Patterns of parameter values, which would match no test in the simulator."""
    case.run("run", glob, "--sim", "icarus", exit=[2], seconds=20)


@group("bad input", word=["1000000000", "2147483647", "99999999"])
def test_seeds(case: FuzzCase, word: str) -> None:
    """A typing error that names 10^9 runs."""
    case.run("run", "*", "--seeds", word, "--dry-run", exit=[2], says="runs", seconds=20)


@group("hostile", take=40, word=WORDS, verb=["clean", "history", "report"])
def test_build_place(case: FuzzCase, word: str, verb: str) -> None:
    """Any value of NF_BUILD."""
    case.run(verb, env={"NF_BUILD": word})


@group(
    "fault",
    word={n: WORDS[n] for n in ("text", "path", "null device", "not UTF-8", "longer", "escape")},
)
def test_temporary_place(case: FuzzCase, word: str) -> None:
    """A TMPDIR that does not exist or cannot be written."""
    setup.capture(case.folder)
    same = {OUT: undamaged()}
    case.run(*REPLAY, "--out", OUT, build=True, same=same, env={"TMPDIR": word})


@group("fault", locale=["POSIX", "C", "de_DE.ISO-8859-1", "nonsense"])
def test_locale(case: FuzzCase, locale: str) -> None:
    """Names beyond ASCII in any locale."""
    setup.capture(case.folder, "größe")
    case.run("capture", "check", "größe", exit=[0], env={"LC_ALL": locale})


@group("hostile", to=NAMES, transport=["signal", "bulk"])
def test_names(case: FuzzCase, to: str, transport: str) -> None:
    """Names of folders that a terminal, a shell or make would take as something else."""
    setup.capture(case.folder, to)
    replay = ("replay", f"./{to}", "--sim", "icarus", "--transport", transport)
    case.run(*replay, build=True, exit=[0])


@group("hostile", to=OUTPUTS)
def test_out_names(case: FuzzCase, to: str) -> None:
    """Names of results that cannot be written are found before anything is driven."""
    setup.capture(case.folder)
    (case.folder / "folder").mkdir()
    case.run(*REPLAY, f"--out={to}", build=True)


@group("bad input", word={name: WORDS[name] for name in ("long", "longer")})
def test_out_long(case: FuzzCase, word: str) -> None:
    """A name of a result that is too long is found before anything is driven."""
    setup.capture(case.folder)
    case.run(*REPLAY, f"--out={word}", build=True, exit=[2], says="at most")
