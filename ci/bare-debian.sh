#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs `make regress` of the last commit in a bare Debian 12 root (ci/debian-root.sh). Prints each line
# with the seconds since the start, and with --out writes the page docs/first-run.md.
#
#   sudo ci/bare-debian.sh ROOT                    with Icarus, which set-up gets by apt
#   sudo ci/bare-debian.sh ROOT --out              also the page: with Icarus, then without
#
# ROOT is made if it is missing, and kept. The second run of a page, without Icarus, and every later
# run find the packages of pip in the cache of ROOT.
set -eu
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
cd -- "$(dirname -- "$0")/.."

die() { printf 'bare-debian: %s\n' "$*" >&2; exit 1; }
[ $# -ge 1 ] || die "usage: ci/bare-debian.sh ROOT [--out]"
ROOT=$1
[ "${2:-}" = "" ] || [ "$2" = --out ] || die "$2: the option is --out"
[ -z "$(git status --porcelain)" ] || die "commit first: the root gets a clone of the last commit"

enter() { ci/debian-root.sh "$ROOT" "$@" </dev/null; }
enter true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Prints each line of a command with the seconds since its start.
timed() {
  python3 -u -c '
import sys, time
start = time.monotonic()
for line in sys.stdin:
    print(f"{time.monotonic() - start:5.0f} s  {line}", end="", flush=True)'
}
# One run from a new clone; arguments are variables of its environment.
try() {
  rm -rf "$ROOT/root/neuron-fabric" "$ROOT/root/.cache/ccache"
  git clone -q "$PWD" "$ROOT/root/neuron-fabric"
  enter "$@" make --no-print-directory -C /root/neuron-fabric regress 2>&1 | timed
}

if [ -z "${2:-}" ]; then
  try
  exit
fi
enter apt-get -qq -y remove iverilog >/dev/null 2>&1 || true
try NF_NO_SUCH=1 >"$work/with" || true
enter apt-get -qq -y remove iverilog >/dev/null 2>&1 || true
try NF_NO_APT=1 >"$work/without" || true
seconds() { sed -n "s/^ *\([0-9]*\) s  .*$2.*/\1/p" "$work/$1" | head -n 1; }
row() {
  set -- "$1" "$(seconds "$1" 'setup: done')" "$(seconds "$1" '=== first result')" \
    "$(tail -n 1 "$work/$1" | sed 's/^ *\([0-9]*\) s .*/\1/')"
  echo "| $1 Icarus | $2 | $(($3 - $2)) | $4 |"
}
# The lines that say what is done and how it ended; those of single runs say little on a page.
shown() { grep -E '^ *[0-9]+ s +(setup:|first a|===|--- |nf replay:|ok |FAIL |report:|processor)' "$work/$1"; }
{
  cat <<EOF
# What the first run prints

\`ci/bare-debian.sh ROOT --out\` makes this page: \`make regress\` of a new clone in a bare Debian 12 root, which has only
python3, git, make, g++ and perl. Measured on $(date -u +%F) at commit $(git rev-parse --short HEAD) with $(nproc) cores
($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)); pip has its packages in a local cache, and the compiler
has none.

| | set-up ends after, s | first result after set-up, s | whole command, s |
|---|---|---|---|
$(row with)
$(row without)

With Icarus, which set-up gets by apt, the first result comes from Icarus while Verilator builds. Without it, the first
result comes from a build of Verilator without optimisation. Lines of single builds, runs and tensors are left out here.

## With Icarus

\`\`\`text
$(shown with)
\`\`\`

## Without Icarus

\`\`\`text
$(shown without)
\`\`\`
EOF
} >"$work/page"
mv "$work/page" docs/first-run.md
cat docs/first-run.md
