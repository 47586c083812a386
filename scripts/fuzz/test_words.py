# SPDX-License-Identifier: Apache-2.0
"""Fuzz cases of command lines, environment variables and names of files."""

from __future__ import annotations

from pathlib import Path

from scripts.fuzz import case_files
from scripts.fuzz.case_files import OUT, REPLAY, undamaged
from scripts.fuzz.fuzz_case import WORDS, FuzzCase, group
from scripts.fuzz.test_files import TRACE, words

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
OPTIONS = {
    "replay c --sim icarus OPTION WORD": "--steps --route --sim --ternary-ratio --threshold --seed "
    "--param --timeout --shard --merge --workers --synthetic --nonfinite --tie --transport --jobs "
    "--memory-latency --memory-beat --memory-stall --rounding --sums",
    "measure bench misses OPTION WORD --only none": "--only --lines --memory-latency --memory-beat "
    "--memory-stall --sim",
    "serve --status no/server OPTION WORD": "--device --sim --workers --socket --timeout --param "
    "--memory-latency",
    "run test_regs::unmapped --dry-run OPTION WORD": "--seed --seeds --until-fail --jobs --timeout "
    "--scale --build --changed --sim",
    "history OPTION WORD": "--sim --result --of --last",
    "capture OPTION WORD --out o s.py": "--workers --steps --ranks --layers",
    "OPTION WORD": "list history rerun report replay capture completion doctor nonsense",
    "report OPTION WORD": "flits",
}
"""Command lines with the options, or verbs, that are given an odd word; the files exist."""
REFUSED = ("measure", "serve", "capture -")
"""Beginnings of lines that cannot succeed, whatever the word is."""


def everything(folder: Path) -> None:
    """Write the files that the command lines of `OPTIONS` name."""
    case_files.capture(folder)
    case_files.history(folder)
    case_files.text(folder, "s.py", "pass\n")
    case_files.text(folder, "t", TRACE)


@group(
    "bad input",
    take=430,
    line={
        line.replace("OPTION", option).partition(" WORD")[0]: line.replace("OPTION", option)
        for line, options in OPTIONS.items()
        for option in words(options)
    },
    word=WORDS,
)
def test_words(case: FuzzCase, line: str, word: str) -> None:
    """Any word after an option or a verb is accepted or refused in one line."""
    everything(case.folder)
    command = [word if part == "WORD" else part for part in words(line)]
    exit_codes = [2] if line.startswith(REFUSED) else [0, 2]
    case.run(*command, build=line.startswith("replay c "), exit=exit_codes)


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
    """A parameter with which the design would not start is refused before it is built."""
    case_files.capture(case.folder)
    case.run(*SIM, "--transport", transport, "--param", parameter, exit=[2])


@group("bad input", word=words("0-999999 0-999999999 5- 999999 1000000 9-1"))
def test_words_synthetic(case: FuzzCase, word: str) -> None:
    """A range of synthetic steps beyond the limit is refused."""
    drawn = ("replay", "--synthetic", "resnet18", "--workers", "1", "--transport", "bulk")
    case.run(*drawn, "--sim", "icarus", "--shard", "9999/9999", "--steps", word, exit=[2])


@group("hostile", take=40, option=words("--changed --cluster --suite --build"), word=WORDS)
def test_words_joined(case: FuzzCase, option: str, word: str) -> None:
    """A word that looks like an option is never passed to another program as one."""
    case.run(*DRY_RUN, f"{option}={word}")


@group("bad input", take=14, word=WORDS)
def test_route_globs(case: FuzzCase, word: str) -> None:
    """Any pattern of tensor names is accepted or refused, also a slow one in other matchers."""
    case_files.capture(case.folder)
    case.run(*SIM, "--transport", "bulk", "--route", f"{word}=G_BINARY", build=True)


@group(
    "bad input",
    glob=["test_descriptors::*/profile=*", "test_descriptors::*/*", "*/(a+)+$", "*/="],
)
def test_test_globs(case: FuzzCase, glob: str) -> None:
    """A pattern of parameter values that would match no test in the simulator is refused."""
    case.run("run", glob, "--sim", "icarus", exit=[2], seconds=20)


@group("bad input", word=["1000000000", "2147483647", "99999999"])
def test_seeds(case: FuzzCase, word: str) -> None:
    """A number of seeds that would plan up to 10^9 runs is refused: it is a typing error."""
    case.run("run", "*", "--seeds", word, "--dry-run", exit=[2], says="runs", seconds=20)


@group("hostile", take=40, word=WORDS, verb=["clean", "history", "report"])
def test_build_place(case: FuzzCase, word: str, verb: str) -> None:
    """Any value of NF_BUILD is accepted or refused in one line."""
    case.run(verb, env={"NF_BUILD": word})


@group(
    "fault",
    word={n: WORDS[n] for n in ("text", "path", "null device", "not UTF-8", "longer", "escape")},
)
def test_temporary_place(case: FuzzCase, word: str) -> None:
    """A TMPDIR that does not exist or cannot be written leads to a refusal or to right tensors."""
    case_files.capture(case.folder)
    same = {OUT: undamaged()}
    case.run(*REPLAY, "--out", OUT, build=True, same=same, env={"TMPDIR": word})


@group("fault", locale=["POSIX", "C", "de_DE.ISO-8859-1", "nonsense"])
def test_locale(case: FuzzCase, locale: str) -> None:
    """A capture whose name has characters beyond ASCII is read in any locale."""
    case_files.capture(case.folder, "größe")
    case.run("capture", "check", "größe", exit=[0], env={"LC_ALL": locale})


@group("hostile", to=NAMES, transport=["signal", "bulk"])
def test_names(case: FuzzCase, to: str, transport: str) -> None:
    """A capture is replayed whatever characters special to terminal, shell or make its name has."""
    case_files.capture(case.folder, to)
    replay = ("replay", f"./{to}", "--sim", "icarus", "--transport", transport)
    case.run(*replay, build=True, exit=[0])


@group("hostile", to=OUTPUTS)
def test_out_names(case: FuzzCase, to: str) -> None:
    """A name of a result that cannot be written is refused before anything is driven."""
    case_files.capture(case.folder)
    (case.folder / "folder").mkdir()
    case.run(*REPLAY, f"--out={to}", build=True)


@group("bad input", word={name: WORDS[name] for name in ("long", "longer")})
def test_out_long(case: FuzzCase, word: str) -> None:
    """A name of a result that is too long is refused before anything is driven."""
    case_files.capture(case.folder)
    case.run(*REPLAY, f"--out={word}", build=True, exit=[2], says="at most")
