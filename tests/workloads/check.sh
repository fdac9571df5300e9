#!/bin/bash
# Holds the truths that the workloads tell against other witnesses: /proc/PID/io and wait4(2)
# (bin/witness), the return values that strace sees, and sizes of files. Needs root and strace.
set -euo pipefail
cd "$(dirname "$0")/bin"

command -v strace >/dev/null || { echo "check.sh: strace is missing: apt-get install strace" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
head -c 3000000 /dev/zero >"$scratch/source"
checks=0 failures=0

# told KEY: from the truth; seen KEY: from the witness.
told() { sed -n "s/^$1=//p" "$scratch/truth"; }
seen() { sed -n "s/^$1=//p" "$scratch/seen"; }

observe() {
	rm -f "$scratch/truth"
	TRUTH_FILE=$scratch/truth ./witness "$@" >"$scratch/seen" || true
}

# near WHAT TRUTH WITNESS SLACK
near() {
	checks=$((checks + 1))
	local off=$(($3 - $2))
	if ((${off#-} > $4)); then
		failures=$((failures + 1))
		echo "FAILED $1: told $2, seen $3 (allowed: $4 off)"
	fi
}

# Sum of the return values, and number, of the calls named.
by_strace() {
	local calls=$1
	shift
	TRUTH_FILE=/dev/null strace -f -qq -e signal=none -e trace="$calls" -o "$scratch/strace" "$@" >/dev/null 2>&1 || true
}
sum() { sed -n 's/.* = \([0-9][0-9]*\)\( .*\)\?$/\1/p' "$scratch/strace" | awk '{ s += $1 } END { printf "%d", s }'; }
count() { grep -Ec ' = [0-9]+( |$)' "$scratch/strace" || true; }

io_arguments() { [[ $1 == copy_file_range ]] && echo "$scratch/source $scratch/copy" || true; }

for program in io io-static; do
	observe "./$program" read 0 777
	start_bytes=$(($(seen rchar) - $(told io_read_bytes)))
	start_calls=$(($(seen syscr) - $(told io_read_calls)))
	# Calls that the kernel accounts: no byte and no call may be off.
	for kind in read pread readv preadv preadv2 write pwrite writev pwritev pwritev2 sendfile copy_file_range socket-write; do
		for chunk in 777 4097 65536; do
			# shellcheck disable=SC2046
			observe "./$program" $kind 1000003 $chunk $(io_arguments $kind)
			near "$program $kind rchar" $(($(told io_read_bytes) + start_bytes)) "$(seen rchar)" 0
			near "$program $kind syscr" $(($(told io_read_calls) + start_calls)) "$(seen syscr)" 0
			near "$program $kind wchar" "$(told io_written_bytes)" "$(seen wchar)" 0
			near "$program $kind syscw" "$(told io_write_calls)" "$(seen syscw)" 0
		done
	done
	# Calls that it does not account: it sees the helping calls only.
	for kind in splice tee vmsplice send sendto sendmsg sendmmsg aio-read aio-write uring-read uring-readv \
		uring-async-read uring-sqpoll-read uring-write uring-writev uring-send; do
		observe "./$program" $kind 1000003 4097
		near "$program $kind rchar" $(($(told io_read_bytes) - $(told kind_read_bytes) + start_bytes)) "$(seen rchar)" 0
		near "$program $kind wchar" $(($(told io_written_bytes) - $(told kind_written_bytes))) "$(seen wchar)" 0
	done
done

for pair in splice:splice tee:tee vmsplice:vmsplice send:sendto sendto:sendto sendmsg:sendmsg send:recvfrom sendmsg:recvmsg; do
	kind=${pair%:*}
	observe ./io-static "$kind" 1000003 4097
	by_strace "${pair#*:}" ./io-static "$kind" 1000003 4097
	case ${pair#*:} in
	splice) near "$kind bytes" $(($(told kind_read_bytes) + $(told kind_written_bytes))) "$(sum)" 0 ;;
	tee | recv*) near "$kind bytes" "$(told kind_read_bytes)" "$(sum)" 0 ;;
	*) near "$kind bytes" "$(told kind_written_bytes)" "$(sum)" 0 ;;
	esac
done
by_strace sendmmsg,recvmmsg ./io-static sendmmsg 1000003 4097
observe ./io-static sendmmsg 1000003 4097
near "sendmmsg messages" $(($(told kind_write_calls) + $(told kind_read_calls))) "$(sum)" 0

for kind in write pwritev aio-write uring-write uring-writev; do
	observe ./io $kind 1000003 4097 "$scratch/file"
	near "$kind size of the file" "$(told kind_written_bytes)" "$(stat -c %s "$scratch/file")" 0
done

# Resident sizes: the kernel's high-water mark may miss a few pages per CPU.
slack=$((4096 * 64 * $(nproc)))
for program in fill fill-static; do
	for how in exit _exit kill free; do
		observe "./$program" 257000000 $how
		near "$program $how maxrss" "$(told peak_rss_bytes)" "$(seen maxrss_bytes)" $slack
	done
done
observe ./spike 100000001 1
near "spike maxrss" "$(told peak_rss_bytes)" "$(seen maxrss_bytes)" $slack
observe ./threads 64 400000001
near "threads maxrss" "$(told peak_rss_bytes)" "$(seen maxrss_bytes)" $slack
observe ./children 3 100000001 together
near "children filled" "$(told filled_peak_bytes)" "$(told pss_sum_peak_bytes)" 2000000

for how in fork vfork posix_spawn clone3 exec reexec thread-exec thread-fork fastexit clone_parent nephew doublefork \
	setsid chain together killed pidns userns nobody; do
	observe ./procs-static 23 $how
	by_strace fork,vfork,clone,clone3 ./procs-static 23 $how
	threads=$(grep -c CLONE_THREAD "$scratch/strace" || true)
	near "procs $how" "$(told processes_total)" $(($(count) - threads + 1)) 0
	by_strace execve ./procs-static 23 $how
	near "procs $how execs" "$(told execs_total)" "$(count)" 0
done

for program in open open-static; do
	observe "./$program" 23 "$scratch/opened"
	by_strace open,openat,openat2,creat "./$program" 23 "$scratch/opened"
	loader=$(grep -c 'ld.so.cache\|libc.so' "$scratch/strace" || true)
	near "$program" "$(told opens_total)" $(($(count) - loader)) 0
done

for kind in tcp udp tcp6; do
	observe ./net-static 1000003 3 $kind
	by_strace sendto,sendmsg,write ./net-static 1000003 3 $kind
	near "net $kind sent" "$(told net_sent_bytes)" $(($(sum) - $(stat -c %s "$scratch/truth"))) 0
	by_strace recvfrom,recvmsg,read ./net-static 1000003 3 $kind
	near "net $kind received" "$(told net_received_bytes)" "$(sum)" 0
done

# Ending costs one more voluntary switch and a few faults.
observe ./switches-static 37
near "switches" "$(told asked_switches)" "$(told voluntary_switches)" 3
near "switches, by wait4" $(($(told voluntary_switches) + 1)) "$(seen voluntary_switches)" 2
observe ./faults-static 1237
near "faults" "$(told asked_faults)" "$(told fill_faults)" 0
near "faults, by wait4" "$(told minor_faults)" "$(seen minor_faults)" 20
observe ./spin 200
near "spin" $(($(told cpu_ns) / 1000)) $(($(seen user_us) + $(seen system_us))) 5000
near "spin, asked" $(($(told asked_cpu_ns) / 1000)) $(($(told cpu_ns) / 1000)) 5000

observe ./daemon 100 "$scratch/daemon"
sleep 0.5
near "daemon" "$(told daemon_written_bytes)" "$(stat -c %s "$scratch/daemon")" 0

echo "$checks checks, $failures failed"
((failures == 0))
