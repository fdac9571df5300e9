#!/bin/bash
# A package's weigh with an old glibc: started, and each mechanism used. Prints `ok NAME` or `FAIL NAME` for each test;
# test.sh runs it, as root, in a mount namespace of its own.
#
# usage: unshare --mount test-old.sh ROOT VERSION
#
# ROOT has weigh in usr/bin. It is for the caller to remove, when the namespace with its mounts is gone.
set -uo pipefail
root=$1 version=$2
source "$(dirname "${BASH_SOURCE[0]}")/test-lib.sh"
mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" || exit

inside() { chroot "$root" env -i PATH=/usr/bin:/bin HOME=/tmp NO_COLOR=1 LC_ALL=C.UTF-8 "$@"; }
glibc=$(inside /lib/"$(uname -m)"-linux-gnu/libc.so.6 | sed -n '1s/.*release version \([0-9.]*[0-9]\).*/\1/p')
is_old() { [[ $glibc == 2.* && ${glibc#2.} -lt 34 ]]; }
check "glibc $glibc is from before 2.34" is_old
check "glibc $glibc: the version" same "weigh $version" "$(inside weigh --version 2>&1)"
check_status "glibc $glibc: a job's exit status is kept" 3 inside weigh run --quiet -o /tmp/run -- sh -c 'exit 3'
# The library is in programs that have no environment of the job's, too, and what needs no version of glibc is counted.
check "glibc $glibc: the library is in the job's programs" inside weigh run --quiet --mechanism preload -o /tmp/preload -- \
	sh -c 'env -i /bin/true && cat /bin/true >/dev/null'
of_summary() { node -e 'const s = JSON.parse(require("fs").readFileSync(process.argv[1]));
	console.log(s.metrics[process.argv[2]].value)' "$root/tmp/preload/summary.json" "$1"; }
check "glibc $glibc: each of them is seen" same 3 "$(of_summary processes_total)"
reads() {
	inside weigh io --quiet --mechanism preload --json /tmp/io.json -- cat /bin/cat >/dev/null &&
		same "$(stat -c %s "$root/bin/cat")" "$(node -e 'const r = JSON.parse(require("fs").readFileSync(process.argv[1]));
			console.log(r.files.filter(f => f.name == "/bin/cat" || f.name == "/usr/bin/cat").map(f => f.read_bytes).join())' "$root/tmp/io.json")"
}
check "glibc $glibc: it counts what is read, to the byte" reads
check "glibc $glibc: calls are marked" inside weigh calls --quiet --mechanism preload -- cat /bin/cat
check "glibc $glibc: without a library" inside weigh run --quiet --mechanism bpf -o /tmp/bpf -- true
rm -f "$said"
exit $failures
