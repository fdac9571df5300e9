#!/bin/bash
# Packs a built weigh for Linux systems without dpkg, or without root:
# OUTPUT_DIR/weigh-VERSION-MACHINE-linux.tar.gz, whose name it prints. Unpacked anywhere, bin/weigh
# runs with glibc 2.28 and newer; below /usr/local, the shells and
# man find the rest too.
#
# usage: tarball.sh WEIGH_BINARY OUTPUT_DIR
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin "$@"

name=weigh-$version-$machine-linux
file=$output/$name.tar.gz
stage "$scratch/$name" site-functions lib share/weigh/python
cp "$top/LICENSE-APACHE" "$top/LICENSE-MIT" "$scratch/$name/share/doc/weigh/"
settle "$scratch/$name"
# gzip, because a bare Debian has no xz; it has no level 0.
gzip_level=${WEIGH_PACKAGE_LEVEL:-9}
((gzip_level)) || gzip_level=1
tar -C "$scratch" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" |
	gzip "-${gzip_level}n" >"$file.part"
mv "$file.part" "$file"
echo "$file"
