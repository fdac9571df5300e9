#!/bin/bash
# Packs the root file system of a bare Debian, as debootstrap's minbase makes it: the essential
# packages and apt, no compiler, no Python. Does nothing if the file is there. Needs root and the
# distribution's archive.
#
# usage: bare-root.sh FILE.tar
#
# The release is this machine's: what weigh measures there is held against what it measures here. WEIGH_BARE_SUITE and WEIGH_BARE_MIRROR choose another.
set -euo pipefail
file=$1
[[ ! -s $file ]] || exit 0

fail() {
	echo "bare-root.sh: $*" >&2
	exit 1
}
source /etc/os-release
case $ID in
debian) mirror=http://deb.debian.org/debian ;;
ubuntu) mirror=http://archive.ubuntu.com/ubuntu ;;
*) mirror= ;;
esac
suite=${WEIGH_BARE_SUITE:-${VERSION_CODENAME:-}} mirror=${WEIGH_BARE_MIRROR:-$mirror}
[[ -n $suite && -n $mirror ]] ||
	fail "neither Debian nor Ubuntu: WEIGH_BARE_SUITE and WEIGH_BARE_MIRROR have to say what to install"

PATH=$PATH:/usr/sbin:/sbin
mkdir -p "$(dirname "$file")"
scratch=$(mktemp -d -p "$(dirname "$file")")
trap 'rm -rf --one-file-system "$scratch"' EXIT
debootstrap --variant=minbase "$suite" "$scratch" "$mirror" >"$file.log" 2>&1 || {
	tail -n 20 "$file.log" >&2
	fail "debootstrap failed"
}
rm -rf "$scratch"/var/cache/apt/* "$scratch"/var/lib/apt/lists/* "$scratch"/var/log/*
chmod 755 "$scratch"
# Device files come from the machine.
tar -C "$scratch" --one-file-system --exclude='./dev/*' -cf "$file.part" .
mv "$file.part" "$file"
