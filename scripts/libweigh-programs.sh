#!/bin/bash
# Builds libweigh and the programs of its tests into FOLDER/build, and installs them into FOLDER/installed. What is newer
# than its sources is left as it is, for others may be using it; calls beside each other wait for each other.
#
# usage: libweigh-programs.sh FOLDER
set -euo pipefail
mkdir -p "$1"
folder=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../libweigh"
exec 9>"$folder/lock"
flock 9
if [[ ! -e $folder/done || -n $(find ../Cargo.toml Makefile ./*.* src tests fortran -newer "$folder/done" -print -quit) ]]; then
	touch "$folder/begun"
	make -s tests OUT="$folder/build" PREFIX="$folder/installed"
	mv "$folder/begun" "$folder/done"
fi
