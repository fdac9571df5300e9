# What aarch64.sh runs in its guest: each mechanism of each command, against exact amounts.
bytes=1000003 chunk=1021 calls=980
cd /tmp || exit
dd if=/dev/urandom of=source bs=$bytes count=1 2>/dev/null
failed=0

# check NAME EXPECTED COMMAND...    what the command prints is this
check() {
	local name=$1 expected=$2 found
	shift 2
	found=$("$@" 2>said)
	if [[ $found == "$expected" ]]; then
		echo "ok   $name"
		return
	fi
	failed=1
	echo "FAIL $name: '$found', expected was '$expected'"
	sed 's/^/     /' said
}

# number FILE KEY    the first number of this key in a file of JSON; of a metric its value
number() { tr -d ' \n' <"$1" | sed -nE "s/.*\"$2\":(\{\"value\":)?([0-9]+).*/\2/p"; }

# What a job has read beyond what its program says it has: for the loader, and the same by each mechanism.
run() {
	rm -rf recording
	weigh run -q --mechanism "$1" --json summary.json -o recording -- "/workloads/io$2" read $bytes $chunk source 2>truth
	echo "$(($(number summary.json io_read_bytes_total) - $(sed -n 's/^io_read_bytes=//p' truth)))" \
		"$(($(number summary.json io_read_calls_total) - $(sed -n 's/^io_read_calls=//p' truth)))"
}

# io MECHANISM DEED FILE BYTES CALLS    bytes and calls of the row of this file, by their keys
io() {
	weigh io -q --mechanism "$1" --json io.json -- /workloads/io "$2" $bytes $chunk "$3"
	awk -v name="/$3\"" -v bytes="\"$4\"" -v calls="\"$5\"" -F'[:,]' 'index($0, name) { on = 1 }
		on && index($1, bytes) { moved = $2 + 0 } on && index($1, calls) { print moved, $2 + 0; exit }' io.json
}
counted() { weigh calls -q --mechanism "$1" --json calls.json -- /workloads/io read $bytes $chunk source >/dev/null &&
	tr -d ' \n' <calls.json | grep -oE '"call":"read","calls_total":[0-9]+' | tr -dc 0-9; }
lines() { weigh trace -q "$@" -o events.jsonl -- /workloads/io read $bytes $chunk source >/dev/null && wc -l <events.jsonl; }
given() { weigh trace -q "$@" -o events.jsonl -- /workloads/probed 1003 >/dev/null; wc -l <events.jsonl; }
fields() { given -e "$1" >/dev/null; sed -nE '$s/.*"fields":(\{.*\})\}$/\1/p' events.jsonl; }

run poll "" >start
for kind in "" -static; do
	run poll "$kind" >start
	for mechanism in bpf ptrace preload; do
		check "run --mechanism $mechanism of a program$kind" "$(cat start)" run $mechanism "$kind"
	done
done
for mechanism in bpf preload; do
	check "io --mechanism $mechanism, reads" "$bytes $calls" io $mechanism read source read_bytes read_calls
	check "io --mechanism $mechanism, writes" "$bytes $calls" io $mechanism write target written_bytes write_calls
done
check "calls --mechanism preload" $calls counted preload
check "calls --mechanism bpf" $((calls + 1)) counted bpf
check "trace of a tracepoint" $((calls + 1)) lines -e 'raw_syscalls:sys_enter if id == 63'
check "trace of a function of a program" 1003 given -e 'user:/workloads/probed:given{arg0}'
check "its arguments" '{"arg0":1002,"arg1":8607114461184,"arg2":"even"}' fields 'user:/workloads/probed:given{arg0=i32(arg0), arg1, arg2=str(arg2)}'
check "trace of its return" 1003 given -e 'user:/workloads/probed:given%return{ret}'
check "trace of a point" 1003 given -e 'usdt:/workloads/probed:weigh_test:step{arg0, arg1, arg2}'
check "its arguments" '{"arg0":1002,"arg1":8607114461184,"arg2":-7}' fields 'usdt:/workloads/probed:weigh_test:step{arg0, arg1, arg2}'
exit $failed
