#!/bin/bash
# Makes crates/kernel/data/functions.gz again: of each kernel source file the functions that it was
# compiled to, as the debugging information of Debian's kernels says.
#
# usage: kernel-functions.sh [FOLDER]    what is fetched stays in FOLDER; without it, it is removed
#
# Fetches the -dbg packages (600 MB, unpacked 0.9 GB) by apt-get; installs nothing. Prints how often a
# table of the first kernel alone is right of the second.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$HOME/.cargo/bin:$PATH"
packages=(linux-image-6.1.0-56-cloud-amd64-dbg linux-image-6.12.117+deb12-cloud-amd64-dbg)
table=$PWD/crates/kernel/data/functions.gz

folder=${1:-}
if [[ -z $folder ]]; then
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"
cargo build --release --locked -p weigh-kernel --example kernel_functions
tool=${CARGO_TARGET_DIR:-target}/release/examples/kernel_functions
tool=$(realpath "$tool")

cd "$folder"
images=()
for package in "${packages[@]}"; do
	release=${package#linux-image-} release=${release%-dbg}
	image=usr/lib/debug/boot/vmlinux-$release
	if [[ ! -e $image ]]; then
		[[ -n $(find . -maxdepth 1 -name "${package}_*.deb") ]] ||
			apt-get -o APT::Sandbox::User=root download "$package"
		dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x "./$image"
	fi
	images+=("$image")
done
"$tool" make first.gz "${images[0]}"
echo "of ${images[1]} a table of ${images[0]} alone says:"
"$tool" judge first.gz "${images[1]}"
"$tool" make "$table" "${images[@]}"
