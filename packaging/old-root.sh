#!/bin/bash
# Packs a root with glibc 2.31 (Debian 11), the oldest that Debian's archive still has: the C library, a shell, and the
# small programs. Does nothing if the file is there. Needs the archive, its keys and no rights.
#
# usage: old-root.sh FILE.tar
#
# WEIGH_OLD_SUITE and WEIGH_OLD_MIRROR choose another.
set -euo pipefail
file=$1
[[ ! -s $file ]] || exit 0
suite=${WEIGH_OLD_SUITE:-bullseye} mirror=${WEIGH_OLD_MIRROR:-http://deb.debian.org/debian}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
mkdir -p "$(dirname "$file")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{lists/partial,packages,root}
echo "deb [signed-by=$keys] $mirror $suite main" >"$scratch/sources.list"
# Lists of its own, and nothing that is installed here; of the lists none but that of packages.
from_archive() {
	(cd "$scratch/packages" && apt-get -qq -o Dir::State::status=/dev/null -o Dir::Etc::sourcelist="$scratch/sources.list" \
		-o Dir::Etc::sourceparts=- -o Dir::State::lists="$scratch/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
		-o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
		-o APT::Sandbox::User= "$@") >"$file.log" 2>&1 || {
		tail -n 20 "$file.log" >&2
		exit 1
	}
}
from_archive update
from_archive download libc6 libgcc-s1 coreutils dash
for package in "$scratch"/packages/*.deb; do dpkg-deb -x "$package" "$scratch/root"; done
mkdir -p "$scratch"/root/{proc,sys,dev,tmp}
rm -rf "$scratch"/root/usr/share
tar -C "$scratch/root" -cf "$file.part" .
mv "$file.part" "$file"
