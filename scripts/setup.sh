#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes .venv with the locked requirements and `nf` in it, and gets Icarus where it may.
# Quiet unless something fails; a second call finds its stamp and does nothing.
# With --torch, --frameworks, --cluster, --docs or --release also what requirements-torch.lock and so on names, where
# this machine can have it; else one line says what is left out.
# Environment: PYTHON (interpreter to use, default python3), NF_NO_APT=1 (never call apt).
set -eu
cd -- "$(dirname -- "$0")/.."

PYTHON=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

[ -z "${TMPDIR:-}" ] || { [ -d "$TMPDIR" ] && [ -w "$TMPDIR" ]; } ||
  die "TMPDIR=$TMPDIR is not a folder that can be written to: unset it, or set another."

command -v "$PYTHON" >/dev/null 2>&1 || die "$PYTHON is not installed (apt-get install python3)."
"$PYTHON" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
  die "Python 3.11, 3.12 or 3.13 is needed; $PYTHON is $("$PYTHON" -V 2>&1). Set PYTHON=..."

# A name of this folder that every tool takes: programs in .venv have it in their first line.
TREE=$("$PYTHON" -I scripts/common/plain_names.py) || exit 1
VENV=$TREE/.venv
STAMP=$VENV/setup-stamp
LOG=$VENV/setup.log

digest() { cat "$@" scripts/setup.sh scripts/nf.sh | sha256sum | cut -c1-64; }
pip_install() {
  # From the hashes of a lock file, nothing beside them. What has no wheel is built with the
  # setuptools of the lock file, not with one that pip fetches for it. pip would compile all Python
  # files on one core, which takes half a minute; what does not compile is nobody's loss. The tests of
  # packages and torch's compiler, a quarter of all, are compiled if somebody imports them.
  "$VENV/bin/python" -m pip install -q --disable-pip-version-check --no-input --no-compile \
    --require-hashes --no-deps --no-build-isolation "$@" || return
  "$VENV/bin/python" -m compileall -qq -j 0 -x '/(tests?|_inductor)/' \
    "$VENV"/lib/python*/site-packages || true
}

extra() {
  # An optional list: its name, the package that it is for, what goes without it.
  stamp="$(digest "requirements-$1.lock") $(pwd -P)"
  [ "$(cat "$VENV/$1-stamp" 2>/dev/null)" != "$stamp" ] || return 0
  without="$2 is not installed: $3"
  if ! (cd "$TREE" && "$VENV/bin/python" -m scripts.checks.requirements --has "$2"); then
    say "$without (requirements-$1.lock has no build of it for this Python and machine)"
  elif say "installing $2" && pip_install --retries 1 -r "requirements-$1.lock" \
    >"$VENV/$1.log" 2>&1; then
    echo "$stamp" >"$VENV/$1-stamp"
  else
    say "$without (pip could not get it: $VENV/$1.log)"
  fi
}
finish() {
  [ -z "$with_cluster" ] || extra cluster distributed "nf run --cluster and its tests are left out"
  [ -z "$with_docs" ] || extra docs sphinx "the documentation site is not built"
  [ -z "$with_release" ] || extra release pip-audit "vulnerable pins and wrong classifiers are not found"
  [ -z "$with_torch" ] || extra torch torch "what trains with it is skipped"
  [ -z "$with_frameworks" ] || extra frameworks transformers "tests of Trainer, Lightning and Accelerate are skipped"
  exit 0
}
with_torch='' with_cluster='' with_docs='' with_release='' with_frameworks=''
for word; do
  case "$word" in
    --torch) with_torch=1 ;;
    --cluster) with_cluster=1 ;;
    --docs) with_docs=1 ;;
    --release) with_release=1 ;;
    --frameworks) with_frameworks=1 ;;
    *) die "$word: the options are --torch, --frameworks, --cluster, --docs and --release" ;;
  esac
done

# The stamp names the folder too: programs in .venv know where it was made.
wanted="$(digest requirements.lock) $(pwd -P)"
if [ -x "$VENV/bin/nf" ] && [ "$(cat "$STAMP" 2>/dev/null)" = "$wanted" ]; then
  finish
fi

can_apt() {
  [ "$(id -u)" = 0 ] && [ "${NF_NO_APT:-0}" != 1 ] && command -v apt-get >/dev/null 2>&1
}
apt_updated=
apt_get() {
  # 0 when every package is there afterwards. Output goes to the log.
  can_apt || return 1
  if [ -z "$apt_updated" ]; then
    DEBIAN_FRONTEND=noninteractive apt-get -qq update >>"$tmplog" 2>&1 || true
    apt_updated=1
  fi
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" \
    >>"$tmplog" 2>&1
}
tmplog=$(mktemp)
trap 'rm -f "$tmplog"' EXIT

for tool in g++ make perl; do
  command -v $tool >/dev/null 2>&1 || apt_get $tool ||
    die "$tool is missing: apt-get install g++ make perl"
done

version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if ! "$PYTHON" -c 'import ensurepip, venv' >/dev/null 2>&1; then
  can_apt && say "getting python$version-venv by apt"
  apt_get "python$version-venv" || apt_get python3-venv ||
    die "this Python has no venv: apt-get install python3-venv (or set PYTHON=...)"
fi

# The simulator embeds Python as a shared library, which Debian packs separately.
has_libpython() {
  "$PYTHON" - <<'EOF'
import ctypes, os, sys, sysconfig
names = [sysconfig.get_config_var(n) or "" for n in ("INSTSONAME", "LDLIBRARY")]
names.append("libpython%d.%d.so.1.0" % sys.version_info[:2])
dirs = [sysconfig.get_config_var(d) or "" for d in ("LIBDIR", "LIBPL")] + [sys.base_prefix + "/lib"]
if any(".so" in n and os.path.exists(os.path.join(d, n)) for n in names for d in dirs):
    sys.exit(0)
try:
    ctypes.CDLL("libpython%d.%d.so.1.0" % sys.version_info[:2])
except OSError:
    sys.exit(1)
EOF
}
if ! has_libpython; then
  can_apt && say "getting libpython$version by apt"
  apt_get "libpython$version" || apt_get "libpython${version}t64" || apt_get python3-dev ||
    die "libpython$version.so is missing: apt-get install libpython$version (or set PYTHON=...)"
fi

base="$(pwd -P) $version locked"
if ! [ -x "$VENV/bin/python" ] || ! "$VENV/bin/python" -c 'import pip' >/dev/null 2>&1 ||
  [ "$(cat "$VENV/setup-base" 2>/dev/null)" != "$base" ]; then
  rm -rf .venv
  "$PYTHON" -m venv "$VENV" >>"$tmplog" 2>&1 ||
    { tail -n 5 "$tmplog" >&2; die "cannot make .venv (apt-get install python3-venv)"; }
  echo "$base" >"$VENV/setup-base"
fi

say "installing the locked requirements into .venv (first time: about a minute)"
sed -n '/^setuptools==/,/[^\\]$/p' requirements.lock >"$VENV/first.txt"
try=1
until pip_install -r "$VENV/first.txt" >"$LOG" 2>&1 && pip_install -r requirements.lock >"$LOG" 2>&1
do
  if [ $try -ge 4 ] || grep -q 'DO NOT MATCH THE HASHES' "$LOG"; then
    tail -n 15 "$LOG" >&2
    die "cannot install the requirements (network?); the whole log is .venv/setup.log"
  fi
  try=$((try + 1))
  sleep $((try * 3))
done
# The packages of the project, found relative to .venv: a copy of the folder finds its own.
site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo ../../../.. >"$site/neuron_fabric.pth"
cp scripts/nf.sh "$VENV/bin/nf.new"
chmod 755 "$VENV/bin/nf.new"
mv "$VENV/bin/nf.new" "$VENV/bin/nf"

if ! command -v iverilog >/dev/null 2>&1; then
  if can_apt && say "getting Icarus Verilog by apt" && apt_get iverilog; then :; else
    say "Icarus Verilog is not installed (apt-get install iverilog): Verilator alone will run."
  fi
fi
# A compiler cache makes an edited design build three times faster; nothing needs it.
command -v ccache >/dev/null 2>&1 || apt_get ccache || true

echo "$wanted" >"$STAMP"
say "done: .venv/bin/nf doctor tells what was found"
finish
