#!/bin/sh
# What `weigh io` adds to a program that does nothing but read or write: its own wall time with and without,
# in turns; the median of the ratios of pairs. By bpf it needs root.
# Usage: scripts/io-overhead.sh [WEIGH [PAIRS [MECHANISM]]]
set -eu
weigh=${1:-target/release/weigh}
pairs=${2:-9}
mechanism=${3:-bpf}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
dd if=/dev/zero of="$folder/file" bs=1M count=512 status=none

# The seconds that dd itself says its copying took.
seconds() { LC_ALL=C "$@" 2>&1 | sed -n 's/.* copied, \([0-9.e-]*\) s,.*/\1/p'; }

measure() { # NAME BLOCK COUNT ARGUMENTS...
	name=$1 block=$2 count=$3
	shift 3
	for pair in $(seq "$pairs"); do
		plain=$(seconds dd bs="$block" count="$count" "$@")
		seen=$(seconds "$weigh" io -q --mechanism "$mechanism" -- dd bs="$block" count="$count" "$@")
		echo "$plain $seen"
	done | awk '{ print $2 / $1 }' | sort -n |
		awk -v name="$name" '{ v[NR] = $1 } END {
			printf "%-18s %.2f  (quartiles %.2f to %.2f)\n", name, v[int((NR + 1) / 2)],
				v[int((NR + 3) / 4)], v[int((3 * NR + 1) / 4)] }'
}

for block in 1K:400000 100K:5000 128K:4000 16M:32; do
	count=${block#*:} block=${block%:*}
	measure "read $block" "$block" "$count" if="$folder/file" of=/dev/null
	measure "write $block" "$block" "$count" if=/dev/zero of="$folder/file" conv=notrunc
done
