#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes .venv with the pinned requirements and this project in it, and gets Icarus where it may.
# Quiet unless something fails; a second call finds its stamp and does nothing.
# Environment: PYTHON (interpreter to use, default python3), NF_NO_APT=1 (never call apt).
set -eu
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
VENV=.venv
STAMP=$VENV/setup-stamp
LOG=$VENV/setup.log

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

command -v "$PYTHON" >/dev/null 2>&1 || die "$PYTHON is not installed (apt-get install python3)."
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  die "Python 3.11 or later is needed; $PYTHON is $("$PYTHON" -V 2>&1). Set PYTHON=..."

wanted=$(cat requirements.txt pyproject.toml scripts/setup.sh | sha256sum | cut -c1-64)
# The stamp names the folder too: a venv that was moved or copied does not work.
wanted="$wanted $(pwd -P)"
if [ -x $VENV/bin/nf ] && [ "$(cat $STAMP 2>/dev/null)" = "$wanted" ]; then
  exit 0
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

if ! [ -x $VENV/bin/python ] || ! $VENV/bin/python -c 'import pip' >/dev/null 2>&1 ||
  [ "$(cat $VENV/setup-base 2>/dev/null)" != "$(pwd -P) $version" ]; then
  rm -rf $VENV
  "$PYTHON" -m venv $VENV >>"$tmplog" 2>&1 ||
    { tail -n 5 "$tmplog" >&2; die "cannot make $VENV (apt-get install python3-venv)"; }
  echo "$(pwd -P) $version" >$VENV/setup-base
fi

say "installing the pinned requirements into $VENV (first time: about a minute)"
try=1
until $VENV/bin/python -m pip install -q --disable-pip-version-check --no-input \
  -r requirements.txt >$LOG 2>&1; do
  if [ $try -ge 4 ]; then
    tail -n 15 $LOG >&2
    die "cannot install the requirements (network?); the whole log is $LOG"
  fi
  try=$((try + 1))
  sleep $((try * 3))
done
$VENV/bin/python -m pip install -q --disable-pip-version-check --no-input --no-deps \
  --no-build-isolation -e . >>$LOG 2>&1 ||
  { tail -n 15 $LOG >&2; die "cannot install the project itself; the whole log is $LOG"; }

if ! command -v iverilog >/dev/null 2>&1; then
  if can_apt && say "getting Icarus Verilog by apt" && apt_get iverilog; then :; else
    say "Icarus Verilog is not installed (apt-get install iverilog): Verilator alone will run."
  fi
fi
# A compiler cache makes an edited design build three times faster; nothing needs it.
command -v ccache >/dev/null 2>&1 || apt_get ccache || true

echo "$wanted" >$STAMP
say "done: $VENV/bin/nf doctor tells what was found"
