#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command in a bare Debian 12 root: Debian's minimal system with python3, git, make, g++ and
# perl, and nothing else.
#
#   sudo ci/debian-root.sh ROOT [NAME=VALUE...] COMMAND...
#
# ROOT is made with debootstrap if it is missing, and kept.
# Environment: BIND, more folders of this machine that ROOT shall see, such as a mirror for pip or
# certificates; variables of pip (PIP_*) are handed on.
set -eu

die() { printf 'debian-root: %s\n' "$*" >&2; exit 2; }
[ $# -ge 2 ] || die "usage: ci/debian-root.sh ROOT [NAME=VALUE...] COMMAND..."
ROOT=$1
shift
[ "$(id -u)" = 0 ] || die "chroot and mount need root: use sudo"

if ! [ -x "$ROOT/usr/bin/git" ]; then
  command -v debootstrap >/dev/null || die "debootstrap is not installed (apt-get install debootstrap)"
  debootstrap --variant=minbase --include=python3,git,make,g++,perl,ca-certificates bookworm "$ROOT"
fi
leave() {
  for folder in proc dev ${BIND:-}; do umount -R "$ROOT/$folder" 2>/dev/null || true; done
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
chroot "$ROOT" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin CI=1 LANG=C.UTF-8 \
  $(env | grep '^PIP_' || true) "$@"
