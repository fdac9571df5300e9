#!/bin/bash
# Feeds every parser of outside text what libFuzzer makes of fuzz/seeds.
#
# usage: fuzz.sh SECONDS [TARGET...]   each target for so long, from where the last time ended
#        fuzz.sh smoke [TARGET...]     each for a few seconds, always with the same random numbers
#
# Prints `ok TARGET` or `FAIL TARGET` for each; what made one fail lies in fuzz/artifacts/TARGET.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/target/tools/bin:$HOME/.cargo/bin:$PATH"
# The instrumentation that cargo-fuzz asks for is behind the nightly gate of a compiler that has it.
export RUSTC_BOOTSTRAP=1
# fuzz/ is built for itself; what else is set for the workspace's build must not reach it.
unset CARGO_TARGET_DIR
smoke_runs=20000 smoke_seconds=2
how=${1:?usage: fuzz.sh SECONDS|smoke [TARGET...]}
shift
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(cd fuzz/fuzz_targets && printf '%s\n' *.rs | sed 's/\.rs$//')

# What runs for seconds is built for longer than that; and no crate that is tried holds `unsafe`, so that what a
# sanitizer might find in those they depend on is left to the longer runs.
sanitizer=address
[[ $how != smoke ]] || { export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 && sanitizer=none; }

cargo fuzz build --sanitizer "$sanitizer" 2>&1 || { echo "FAIL  build"; exit 1; }
built=fuzz/target/$(rustc -vV | sed -n 's/^host: //p')/release
failures=0
for target in "${targets[@]}"; do
	options=(-rss_limit_mb=4096 -timeout=10 -max_len=8192 -print_final_stats=1)
	if [[ $how == smoke ]]; then
		corpus=$(mktemp -d)
		options+=(-seed=1 "-runs=$smoke_runs" "-max_total_time=$smoke_seconds")
	else
		corpus=fuzz/corpus/$target
		mkdir -p "$corpus"
		options+=("-max_total_time=$how")
	fi
	mkdir -p "fuzz/artifacts/$target"
	said=$("$built/$target" "-artifact_prefix=fuzz/artifacts/$target/" "${options[@]}" "$corpus" "fuzz/seeds/$target" 2>&1)
	status=$?
	[[ $how != smoke ]] || rm -rf "$corpus"
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
