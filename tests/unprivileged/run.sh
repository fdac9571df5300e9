#!/bin/bash
# weigh as an ordinary user without capabilities: it runs the command, measures what it can, and
# says of everything else why it is not there. Prints `ok NAME` or `FAIL NAME` for each test.
#
# usage: run.sh WEIGH
set -uo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
# The build directory may be out of reach of that user.
install -m 755 "$1" "$home/weigh"
weigh=$home/weigh
as_user=()
if ((EUID == 0)); then
	chown 65534:65534 "$home"
	as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all)
fi
failures=0

user() { (cd "$home" && env -i PATH="$PATH" HOME="$home" NO_COLOR=1 "${as_user[@]}" "$@"); }

# check NAME STATUS COMMAND...: the command's exit status is that one
check() {
	local name=$1 expected=$2 status
	shift 2
	"$@" >"$home/said" 2>&1
	status=$?
	if ((status == expected)); then
		echo "ok    $name"
	else
		echo "FAIL  $name: status $status instead of $expected"
		sed 's/^/      /' "$home/said"
		failures=1
	fi
}

# Holds a summary to an expression of JavaScript.
summary() { node -e "const s = JSON.parse(require('fs').readFileSync('$home/s.json')); process.exit(($1) ? 0 : 1)"; }

check "the command's exit status is kept" 3 user "$weigh" run --json s.json -- sh -c 'exit 3'
check "the summary says how it ended" 0 summary "s.exit.kind === 'exited' && s.exit.code === 3"
check "wall and CPU time are known" 0 summary \
	"['wall_seconds', 'cpu_seconds', 'cpu_user_seconds'].every((n) => s.metrics[n].value !== null)"
check "what is not known has a reason and no number" 0 summary \
	"Object.values(s.metrics).every((v) => (v.value === null) === (v.quality === 'unavailable') && (v.value !== null || v.reason))"
check "a tracer takes the kernel's place" 0 summary "s.metrics.processes_total.source === 'ptrace'"
check "every process it was told of" 0 summary "s.metrics.processes_total.quality === 'exact'"
check "the mechanism can be chosen" 0 user "$weigh" run --quiet --mechanism poll --json s.json -- sleep 0.2
check "what rests on looks or on wait(2) is not called exact" 0 summary \
	"s.metrics.memory_peak_bytes.quality !== 'exact' && s.metrics.processes_total.quality !== 'exact'"
# Where processors are short weigh is held up between two looks at a process, which ends meanwhile.
busy=()
for ((i = 0; i < 2 * $(nproc); i++)); do
	while :; do :; done &
	busy+=($!)
done
user "$weigh" run --quiet --mechanism poll --json s.json -- \
	sh -c 'i=0; while [ $i -lt 3000 ]; do /bin/true; i=$((i + 1)); done' >"$home/said" 2>&1
kill "${busy[@]}"
check "who ends while it is looked at hides nothing" 0 summary \
	"s.collectors.some((c) => c.name === 'poll') && !s.collectors.some((c) => /hidden/.test(c.reason))"
check "a recording is left where the user's state belongs" 0 user sh -c \
	'rm -rf .local; "$1" run --quiet -- true && test -s .local/state/weigh/*/summary.json' sh "$weigh"
check "a signal ends weigh as it ends the command" 143 user "$weigh" run --quiet -- sh -c 'kill -TERM $$'
check "a command that is not there is 127" 127 user "$weigh" run --quiet -- ./nowhere
check "doctor says that only the fallback works" 1 user "$weigh" doctor
user "$weigh" doctor >"$home/findings" 2>&1
check "doctor names the capability" 0 grep -q CAP_BPF "$home/findings"
exit $failures
