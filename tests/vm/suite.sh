#!/bin/bash
# The integration tests of weigh on Debian's stock 6.1 cloud kernel (see run.sh): the same compiled test
# programs and the same binary that the host's tests use. Shows each test's result as it comes and
# closes with one line, `N passed, N failed`; the status is 1 if any failed. What fails is run again by
# itself: if it passes then, it has passed, and is counted as unsteady, too. A guest that stands still (see
# --in-turns of run.sh) is ended, shown as unsteady, and what had not come to its end goes to another one.
#
# usage: suite.sh [--scale N] [--in-turns] [--silence S] [--weigh FILE] [--tests FILE [--part K/N]] [--times]
#                 [TEST-PROGRAM...] [-- FILTER...]
#   --weigh FILE    this binary; default: built now, with the tests
#   TEST-PROGRAM    these compiled tests; default: all tests of the package weigh, built now
#   --tests FILE    only the tests that FILE names: lines `SECONDS PROGRAM TEST`
#   --part K/N      the Kth of N parts of that file, which take about as long as each other
#   --times         tell the seconds of each test, as FILE has them
#   --scale N       how many times slower than a real machine to take the guest for (default 6)
#   --in-turns      see run.sh
#   --silence S     seconds without a word after which a guest is taken to stand still (default 240)
#   FILTER          only tests whose names contain one of these; `--skip NAME` leaves some out
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."

weigh= scale=6 silence=240 turns=() tests=() filters=() listed= part=1/1 times=
# So many guests, if they stand still.
most_guests=3
while (($#)); do
	case $1 in
	--weigh) weigh=$2 && shift 2 ;;
	--scale) scale=$2 && shift 2 ;;
	--silence) silence=$2 && shift 2 ;;
	--tests) listed=$2 && shift 2 ;;
	--part) part=$2 && shift 2 ;;
	--times) times=1 && shift ;;
	--in-turns) turns=(--in-turns) && shift ;;
	--)
		shift
		filters=("$@")
		break
		;;
	--*)
		sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2
		exit 2
		;;
	*) tests+=("$1") && shift ;;
	esac
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

[[ -d tests/workloads/bin ]] || make --silent -C tests/workloads
if [[ -z $weigh || ${#tests[@]} -eq 0 ]]; then
	cargo test --profile tested --locked -p weigh --no-run --message-format=json >"$scratch/build"
	# The paths of what was built, of one kind: a line of JSON for each.
	built() { sed -n "/\"kind\":\[\"$1\"\]/s/.*\"executable\":\"\([^\"]*\)\".*/\1/p" "$scratch/build"; }
	((${#tests[@]})) || mapfile -t tests < <(built test)
	# The binary comes twice: as itself, and with its unit tests in it, under deps/.
	[[ -n $weigh ]] || weigh=$(built bin | grep -v /deps/)
fi
((${#tests[@]})) || {
	echo "suite.sh: no test programs" >&2
	exit 2
}

mkdir "$scratch/tests" "$scratch/names"
for test in "${tests[@]}"; do
	name=$(basename "$test")
	# Without the hash, and without what only a debugger reads.
	name=${name%-*}
	strip --strip-debug -o "$scratch/tests/$name" "$test"
	"$test" --list --format=terse ${filters[@]+"${filters[@]}"} 2>/dev/null | sed -n 's/: test$//p' >"$scratch/names/$name"
done
strip --strip-debug -o "$scratch/weigh" "$weigh"

# Of the tests that are listed one part: whole modules, the longest first, each to the part that has least to do.
# A test that is listed and not there is an error.
if [[ -n $listed ]]; then
	awk -v K="${part%/*}" -v N="${part#*/}" '!/^#/ && NF == 3 {
		split($3, path, "::")
		module = $2 "::" path[1]
		seconds[module] += $1
		tests[module] = tests[module] $2 " " $3 "\n"
	} END {
		while (length(seconds)) {
			longest = ""
			for (module in seconds)
				if (longest == "" || seconds[module] > seconds[longest] || (seconds[module] == seconds[longest] && module < longest)) longest = module
			least = 1
			for (k = 2; k <= N; k++) if (sum[k] + 0 < sum[least] + 0) least = k
			sum[least] += seconds[longest]
			if (least == K) printf "%s", tests[longest]
			delete seconds[longest]
		}
	}' "$listed" >"$scratch/listed"
	for names in "$scratch"/names/*; do
		name=${names##*/}
		sed -n "s/^$name //p" "$scratch/listed" | sort >"$scratch/wanted"
		sort "$names" >"$scratch/there"
		missing=$(comm -23 "$scratch/wanted" "$scratch/there")
		[[ -z $missing ]] || { echo "suite.sh: $listed names tests of $name that there are not: $missing" >&2 && exit 2; }
		cp "$scratch/wanted" "$names"
	done
fi
# A file for each module that has tests to run: PROGRAM::MODULE, with the names of these.
mkdir "$scratch/modules"
for names in "$scratch"/names/*; do
	awk -v folder="$scratch/modules" -v program="${names##*/}" '{
		module = $0
		sub(/::.*/, "", module)
		print >(folder "/" program "::" module)
	}' "$names"
done
modules=$(find "$scratch/modules" -type f | wc -l)
((modules)) || { echo "suite.sh: no test is left to run" >&2 && exit 2; }

cat >"$scratch/suite" <<'SUITE'
#!/bin/bash
# In the guest. /var/tmp is on a disk, /tmp is not.
# Nobody else lives by this machine's clock.
export WEIGH_OWN_MACHINE=1
export WEIGH_BIN=/usr/local/bin/weigh WEIGH_WORKLOADS=/workloads WEIGH_LIBWEIGH=/libweigh
export TMPDIR=/var/tmp RUST_BACKTRACE=0
chmod 1777 /var/tmp
# For `weigh io mount`, and for files that lie on others; without the kernel's package there is none.
for module in fuse overlay; do
	[[ ! -e /modules/$module.ko ]] || insmod "/modules/$module.ko"
done
# Runs what has failed once more; fails if that does, or if it is much, or nothing that has a name.
again() {
	local names name status=0
	grep -q '^test result' /said || return 1
	mapfile -t names < <(sed -nE 's/^test ([^ ]+) \.\.\. FAILED.*$/\1/p' /said | sort -u)
	((${#names[@]} >= 1 && ${#names[@]} <= 3)) || return 1
	for name in "${names[@]}"; do
		if timeout -k 10 200 "$1" --color=never --exact "$name" </dev/null >/said 2>&1 &&
			grep -q '^test result: ok. 1 passed' /said; then
			echo "again: ok $name"
		else
			sed 's/^test result/the result/' /said
			echo "again: FAIL $name"
			status=1
		fi
	done
	return $status
}
status=0
for module in /modules-to-run/*; do
	name=${module##*/}
	test=/tests/${name%%::*}
	echo "== $name"
	began=$SECONDS
	mapfile -t names <"$module"
	# A tracer that attaches to a function makes the kernel pass over the calls that are in it: runs
	# beside each other would take calls from each other. And several that ask an agent for the programs of
	# `weigh io` at once wait longer for the emulated verifier than they do for an answer.
	threads=4
	[[ $name != @(io::counts|io::agent_io|run::network|calls::functions|calls::libweigh*) ]] || threads=1
	# A program that hangs must not take the others' results with it.
	timeout -k 10 500 "$test" $REPORT_TIME --test-threads=$threads --color=never --exact "${names[@]}" </dev/null 2>&1 | tee /said
	((${PIPESTATUS[0]} == 0)) || again "$test" || status=1
	echo "== $name took $((SECONDS - began)) s"
done
exit $status
SUITE
chmod +x "$scratch/suite"

# There is no compiler in the guest.
libweigh=${CARGO_TARGET_DIR:-target}/tmp/libweigh
scripts/libweigh-programs.sh "$libweigh"

files=(--file "$libweigh/installed:/libweigh" --file "$scratch/weigh:/usr/local/bin/weigh" --file "$scratch/suite:/suite" --file "$scratch/tests:/tests" --file "$scratch/modules:/modules-to-run")
# What tells the seconds is behind a gate of the compiler's.
[[ -z $times ]] || files+=(--env RUSTC_BOOTSTRAP=1 --env "REPORT_TIME=-Zunstable-options --report-time")
bpftool=$(PATH=$PATH:/usr/sbin command -v bpftool || true)
[[ -z $bpftool ]] || files+=(--file "$bpftool:/usr/local/bin/bpftool")
# Who makes an XFS, for the one test that needs one.
mkfs=$(PATH=$PATH:/usr/sbin command -v mkfs.xfs || true)
[[ -z $mkfs ]] || files+=(--file "$mkfs:/usr/local/bin/mkfs.xfs" --module libcrc32c --module loop --module xfs)

# Ends a guest that says nothing any more; whether it was ended.
stands_still() {
	local size before=-1 since=$SECONDS
	while kill -0 "$1" 2>/dev/null; do
		size=$(stat -c %s "$scratch/said")
		((size == before)) || since=$SECONDS
		before=$size
		if ((SECONDS - since >= silence)); then
			kill "$1"
			return 0
		fi
		sleep 1
	done
	return 1
}

: >"$scratch/said"
for ((guest = 1; ; guest++)); do
	status=0
	# Without what guards the kernel from programs that spy on it, without memory cleared twice, and with the processor's
	# clock, which the kernel would not trust here and take a device's, the emulator has less to do.
	"$here/run.sh" ${turns[@]+"${turns[@]}"} --timeout 1800 --memory 4096 --disk 6144 --env "WEIGH_TEST_SCALE=$scale" \
		--env WEIGH_TEST_KERNEL_IMAGE=1 --append "mitigations=off init_on_alloc=0 tsc=reliable" --module sunrpc --module fuse --module overlay --env WEIGH_TEST_MODULES=/modules "${files[@]}" \
		-- /suite ${filters[@]+"${filters[@]}"} > >(tee -a "$scratch/said") &
	machine=$!
	stood_still=
	! stands_still "$machine" || stood_still=1
	wait "$machine" || status=$?
	[[ -n $stood_still ]] || break
	while read -r name; do rm -f "$scratch/modules/$name"; done < <(sed -n 's/^== \([^ ]*\) took .*/\1/p' "$scratch/said")
	printf '\n== the guest stood still\n' | tee -a "$scratch/said"
	((guest < most_guests)) || break
done
# What the last one said may be under way.
sleep 1

# What was asked for, in the form of --tests.
if [[ -n $times ]]; then
	sed -nE '/^== [^ ]+$/{s/^== ([^ ]+)::[^:]+$/\1/;h};/^test .* \.\.\. ok <[0-9.]+s>/{s/^test ([^ ]+) \.\.\. ok <([0-9.]+)s>.*/\2 \1/;G;s/^([0-9.]+) ([^\n]*)\n(.*)$/\1 \3 \2/p}' \
		"$scratch/said" | sort -k2,3 | sed 's/^/time: /'
fi
# A module that ended without a result is a failure; so is a machine that did. Of one that two guests have run the
# last one counts.
awk -v modules="$modules" -v status="$status" '
	/^== the guest stood still$/ { unsteady++; next }
	/^== [^ ]+$/ { name = $2; ok[name] = bad[name] = has_result[name] = 0 }
	/^test result: / {
		has_result[name] = 1
		for (i = 2; i <= NF; i++) {
			if ($i ~ /^passed/) ok[name] += $(i - 1)
			if ($i ~ /^failed/) bad[name] += $(i - 1)
		}
	}
	/^again: ok / { unsteady++; ok[name]++; bad[name]-- }
	END {
		for (name in has_result) {
			passed += ok[name]
			failed += bad[name]
			results += has_result[name]
		}
		failed += modules - results
		if (status && !failed) failed = 1
		printf "%d passed, %d failed%s\n", passed, failed, unsteady ? ", " unsteady " unsteady" : ""
		exit failed > 0
	}' "$scratch/said"
