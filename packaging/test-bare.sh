#!/bin/bash
# weigh's packages on a bare Debian without network: installed, used as root and as nobody, removed.
# Prints `ok NAME` or `FAIL NAME` for each test; test.sh runs it, as root, in a mount and a network
# namespace of its own.
#
# usage: unshare --mount --net test-bare.sh ROOT VERSION DEB TARBALL NVML_STUB RESULTS
#
# ROOT is the unpacked file system. It is for the caller to remove, when the namespace with its
# mounts is gone. In RESULTS two summaries stay, of root's runs from either package.
set -uo pipefail
root=$1 version=$2 deb=$3 tarball=$4 stub=$5 results=$6
source "$(dirname "${BASH_SOURCE[0]}")/test-lib.sh"

mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" || exit

inside() { chroot "$root" env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root NO_COLOR=1 LC_ALL=C.UTF-8 "$@"; }
nobody() { inside HOME=/tmp/nobody setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$@"; }
shell() { inside bash -c "$@"; }
# All files but those in which dpkg and the loader keep their own accounts. A folder's time changes
# with what is in it.
files() {
	(cd "$root" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log -o -path ./tmp \) -prune \
		-o -type d -printf '%p %m %U:%G\n' -o -printf '%p %m %U:%G %s %T@ %l\n' | sort)
}
no_toolchain() {
	local tool found=0
	for tool in cc gcc clang ld as make cargo rustc node python3 curl wget; do
		inside sh -c "command -v $tool" && found=1
	done
	return $found
}
only_loopback() { same lo "$(shell 'tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "')"; }

# Of one package, installed so that WEIGH is its binary.
use() {
	local as=$1 weigh=$2
	check "$as: the version" same "weigh $version" "$(inside "$weigh" --version 2>&1)"
	check "$as: all shared libraries are there" shell "! ldd $weigh | grep 'not found'"
	check_status "$as: root: the command's exit status is kept" 3 inside "$weigh" run --quiet -o /tmp/root -- sh -c 'exit 3'
	check "$as: root: the command's output is its own" same 'out' "$(inside "$weigh" run --quiet -o /tmp/out -- echo out 2>&1)"
	check "$as: root: a recording is shown" shell "$weigh show /tmp/root | grep -q 'exited 3'"
	check "$as: root: its page is made" shell "rm -f /tmp/root/report.html; $weigh report /tmp/root && test -s /tmp/root/report.html"
	# In an empty folder: all of the system would be its disk footprint, and may not be looked through in time.
	check "$as: root: a run, its summary as JSON" shell "mkdir /tmp/empty && cd /tmp/empty &&
		$weigh run --quiet -o /tmp/json --interval 100ms --json /tmp/summary.json -- sleep 1"
	mv "$root/tmp/summary.json" "$results/$as.json"
	inside "$weigh" doctor >"$results/$as.doctor" 2>&1
	echo $? >"$results/$as.doctor-status"
	check "$as: no GPU library is a reason, not an end" grep -q 'libnvidia-ml.so.1: cannot open' "$results/$as.json"

	install -m 755 "$stub" "$root/usr/lib/libnvidia-ml.so.1"
	check "$as: NVIDIA's library is opened where it is" shell \
		"$weigh doctor -v | grep -Eq '^ *gpu +works'"
	rm "$root/usr/lib/libnvidia-ml.so.1"

	install -d -o 65534 -g 65534 "$root/tmp/nobody"
	check_status "$as: nobody: the command's exit status is kept" 3 nobody "$weigh" run --quiet -- sh -c 'exit 3'
	check "$as: nobody: a recording is left" shell 'test -s /tmp/nobody/.local/state/weigh/*/summary.json'
	check "$as: nobody: weigh run -- true" nobody "$weigh" run -- true
	check_status "$as: the agent without rights says why" 125 nobody "$weigh" agent --socket /tmp/nobody/socket
	check_status "$as: nobody: doctor says that only the fallback works" 1 nobody "$weigh" doctor
	rm -rf "${root:?}"/tmp/{root,out,json,nobody,empty}
	check "$as: a recording lies where it was asked for, and nowhere else" same "" "$(ls -A "$root/tmp"; ls -d "$root/root/.local" 2>/dev/null)"
}

# What the shell that is always there offers after `weigh r`.
completes() {
	check "$1: bash completes" same "report run" "$(shell "source $2; COMP_WORDS=(weigh r) COMP_CWORD=1; _weigh weigh r weigh;
		echo \${COMPREPLY[*]}" | tr ' ' '\n' | sort | paste -sd' ')"
}

check "the bare root has no toolchain" no_toolchain
check "the bare root has no network" only_loopback
files >"$results/before"

cp "$deb" "$root/tmp/weigh.deb"
check "deb: dpkg installs it" inside dpkg -i /tmp/weigh.deb
check "deb: it is installed whole" shell 'dpkg -V weigh && dpkg-query -W -f "\${Status}" weigh | grep -qx "install ok installed"'
rm "$root/tmp/weigh.deb"
use deb weigh
completes deb /usr/share/bash-completion/completions/weigh
check "deb: every verb has its page" shell 'for verb in run show report doctor agent; do
	zcat /usr/share/man/man1/weigh-$verb.1.gz | grep -q "^.TH weigh-$verb 1" || exit 1; done; test -s /usr/share/man/man1/weigh.1.gz'
check "deb: dpkg knows each file" shell 'dpkg -S /usr/bin/weigh /usr/share/man/man1/weigh.1.gz /usr/share/doc/weigh/copyright'
cp "$deb" "$root/tmp/weigh.deb"
check "deb: it installs over itself" inside dpkg -i /tmp/weigh.deb
rm "$root/tmp/weigh.deb"
check "deb: dpkg removes it" inside dpkg -r weigh
check "deb: dpkg no longer knows it" shell '! dpkg -s weigh'
files >"$results/after"
check "deb: nothing is left behind" diff "$results/before" "$results/after"

name=$(basename "$tarball" .tar.gz)
cp "$tarball" "$root/tmp/weigh.tar.gz"
check "tarball: it unpacks with what is there" inside tar -C /opt -xzf /tmp/weigh.tar.gz
rm "$root/tmp/weigh.tar.gz"
use tarball "/opt/$name/bin/weigh"
completes tarball "/opt/$name/share/bash-completion/completions/weigh"
check "tarball: all of it is root's, and its own folder's" same "$name" "$(ls "$root/opt"; find "$root/opt" ! -user 0 -o ! -group 0)"
rm -rf "${root:?}/opt/$name"
files >"$results/after"
check "tarball: nothing is left behind" diff "$results/before" "$results/after"

rm -f "$said"
exit $failures
