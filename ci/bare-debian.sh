#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs `make regress` of the last commit in a bare Debian 12 root: Debian's minimal system with
# python3, git, make, g++ and perl, and nothing else. Prints each line with the seconds since the
# start, and with --out writes the page docs/first-run.md.
#
#   sudo ci/bare-debian.sh ROOT                    with Icarus, which set-up gets by apt
#   sudo ci/bare-debian.sh ROOT --out              also the page: with Icarus, then without
#
# ROOT is made with debootstrap if it is missing, and kept. The second run of a page, without
# Icarus, and every later run find the packages of pip in the cache of ROOT.
# Environment: BIND, more folders of this machine that ROOT shall see, such as a mirror for pip or
# certificates; variables of pip (PIP_*) are handed on.
set -eu
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
cd -- "$(dirname -- "$0")/.."

die() { printf 'bare-debian: %s\n' "$*" >&2; exit 1; }
[ $# -ge 1 ] || die "usage: ci/bare-debian.sh ROOT [--out]"
ROOT=$1
[ "${2:-}" = "" ] || [ "$2" = --out ] || die "$2: the option is --out"
[ "$(id -u)" = 0 ] || die "chroot and mount need root: sudo ci/bare-debian.sh $ROOT"
[ -z "$(git status --porcelain)" ] || die "commit first: the root gets a clone of the last commit"

if ! [ -x "$ROOT/usr/bin/git" ]; then
  command -v debootstrap >/dev/null || die "debootstrap is not installed (apt-get install debootstrap)"
  debootstrap --variant=minbase --include=python3,git,make,g++,perl,ca-certificates bookworm "$ROOT"
fi
work=$(mktemp -d)
leave() {
  for folder in proc dev ${BIND:-}; do umount "$ROOT/$folder" 2>/dev/null || true; done
  rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mount --make-rslave "$ROOT/dev"
cp -L /etc/resolv.conf /etc/hosts "$ROOT/etc/"
for folder in ${BIND:-}; do
  mkdir -p "$ROOT/$folder"
  mount --bind "$folder" "$ROOT/$folder"
done

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
  chroot "$ROOT" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin CI=1 LANG=C.UTF-8 \
    $(env | grep '^PIP_' || true) "$@" \
    make --no-print-directory -C /root/neuron-fabric regress </dev/null 2>&1 | timed
}

if [ -z "${2:-}" ]; then
  try
  exit
fi
chroot "$ROOT" apt-get -qq -y remove iverilog >/dev/null 2>&1 || true
try NF_NO_SUCH=1 >"$work/with" || true
chroot "$ROOT" apt-get -qq -y remove iverilog >/dev/null 2>&1 || true
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
