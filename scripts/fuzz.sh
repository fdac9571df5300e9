#!/bin/bash
# Feeds every parser of outside text what libFuzzer makes of fuzz/seeds, with AddressSanitizer. The tests of fuzz/replay
# try the same parsers with seeds and some thousand changes of them, without either.
#
# usage: fuzz.sh SECONDS [TARGET...]   each target for so long, from where the last time ended
#
# Prints `ok TARGET` or `FAIL TARGET` for each; what made one fail lies in fuzz/artifacts/TARGET.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/target/tools/bin:$HOME/.cargo/bin:$PATH"
# The instrumentation that cargo-fuzz asks for is behind the nightly gate of a compiler that has it.
export RUSTC_BOOTSTRAP=1
# fuzz/ is built for itself; what else is set for the workspace's build must not reach it.
unset CARGO_TARGET_DIR
seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(cd fuzz/seeds && printf '%s\n' *)

# All targets are one program.
export CARGO_PROFILE_RELEASE_DEBUG=line-tables-only
cargo fuzz build --sanitizer address 2>&1 || { echo "FAIL  build"; exit 1; }
program=fuzz/target/$(rustc -vV | sed -n 's/^host: //p')/release/target
# What is kept for the whole run is no leak.
export ASAN_OPTIONS=detect_leaks=0
# Targets that need files make them there.
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
failures=0
for target in "${targets[@]}"; do
	corpus=fuzz/corpus/$target
	mkdir -p "$corpus" "fuzz/artifacts/$target"
	options=(-rss_limit_mb=4096 -timeout=10 -max_len=8192 -print_final_stats=1 "-max_total_time=$seconds")
	said=$(WEIGH_FUZZ=$target "$program" "-artifact_prefix=fuzz/artifacts/$target/" "${options[@]}" "$corpus" "fuzz/seeds/$target" 2>&1)
	status=$?
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' <<<"$said")
	if ((status == 0)) && ((${runs:-0} > 0)); then
		echo "ok    $target: $runs inputs"
	else
		echo "FAIL  $target"
		tail -n 60 <<<"$said"
		failures=1
	fi
done
exit $failures
