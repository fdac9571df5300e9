#!/bin/bash
# weigh's packages on a bare Debian without network: installed, used as root and as nobody, removed.
# Prints `ok NAME` or `FAIL NAME` for each test; test.sh runs it, as root, in a mount and a network
# namespace of its own.
#
# usage: unshare --mount --net test-bare.sh ROOT VERSION DEB TARBALL RPM NVML_STUB RESULTS
#
# ROOT is the unpacked file system. It is for the caller to remove, when the namespace with its
# mounts is gone. In RESULTS two summaries stay, of root's runs from either package.
set -uo pipefail
root=$1 version=$2 deb=$3 tarball=$4 rpm=$5 stub=$6 results=$7
source "$(dirname "${BASH_SOURCE[0]}")/test-lib.sh"

mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" || exit

inside() { chroot "$root" env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root NO_COLOR=1 LC_ALL=C.UTF-8 "$@"; }
nobody() { inside HOME=/tmp/nobody setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$@"; }
shell() { inside bash -c "$@"; }
# All files but those in which dpkg, the loader and groupadd keep their own accounts. A folder's time changes
# with what is in it.
files() {
	(cd "$root" && find . -xdev \( -path './etc/g*' -o -path ./etc/.pwd.lock -o -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log -o -path ./tmp \) -prune \
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
	check "$as: the agent without rights serves the node alone, and says why" \
		nobody sh -c "timeout 2 $weigh agent --socket /tmp/nobody/socket 2>&1 | grep -q 'turned away'"
	check_status "$as: nobody: doctor says that only the fallback works" 1 nobody "$weigh" doctor
	rm -rf "${root:?}"/tmp/{root,out,json,nobody,empty}
	check "$as: a recording lies where it was asked for, and nowhere else" same "" "$(ls -A "$root/tmp"; ls -d "$root/root/.local" 2>/dev/null)"
}

# A copy with capabilities is the administrator's to make, and the group's alone.
member() { inside HOME=/tmp/member setpriv --reuid=65534 --regid=65534 --groups="$(shell 'getent group weigh | cut -d: -f3')" --inh-caps=-all "$@"; }
privileged() { shell 'stat -c "%a %U:%G" /usr/bin/weigh-privileged; getcap /usr/bin/weigh-privileged | cut -d" " -f2'; }
sees_all() { "$1" "$2" run --quiet --mechanism bpf -o "/tmp/member/$RANDOM" -- true; }
granted() {
	local expected=$'750 root:weigh\ncap_perfmon,cap_bpf=ep'
	install -d -o 65534 -g 65534 "$root/tmp/member"
	check "deb: the group is there, and empty" same "" "$(shell 'getent group weigh | cut -d: -f4')"
	check "deb: no program has a capability" same "" "$(shell 'getcap -r /usr/bin /usr/sbin /usr/lib | grep weigh; ls /usr/bin/weigh-privileged 2>/dev/null')"
	check "deb: nobody but root gives any" test 1 = "$(nobody weigh-grant on >/dev/null 2>&1; echo $?)"
	check "deb: the administrator makes the copy" inside weigh-grant on
	check "deb: it is the group's alone" same "$expected" "$(privileged)"
	check "deb: the common binary has none" same "" "$(shell 'getcap /usr/bin/weigh')"
	# setpriv itself has root's capabilities until it executes a program.
	check_status "deb: a user outside of the group cannot execute the copy" 126 nobody sh -c 'exec weigh-privileged --version'
	check_status "deb: nor read it" 1 nobody cat /usr/bin/weigh-privileged
	check "deb: a member's job is followed by the kernel" sees_all member weigh-privileged
	check "deb: the member's job has no capability" member weigh-privileged run --quiet -o /tmp/member/caps -- \
		sh -c 'grep -q "^CapEff:[[:space:]]*0*$" /proc/self/status'
	check_status "deb: by the common binary it is not" 125 sees_all member weigh
	# The binary of another version would be another file.
	echo >>"$root/usr/bin/weigh-privileged"
	again
	check "deb: an upgrade makes the copy anew" same "$expected" "$(privileged; cmp "$root/usr/bin/weigh" "$root/usr/bin/weigh-privileged")"
	check "deb: the administrator takes it away" inside weigh-grant off
	again
	check "deb: an upgrade leaves it so" same "off: weigh has no capabilities here" "$(inside weigh-grant status)"
	check "deb: where others may write it is refused" refuses_writable
	check "deb: it is made before the package is removed" inside weigh-grant on
	rm -rf "${root:?}/tmp/member"
}
refuses_writable() {
	chmod 777 "$root/usr/bin"
	! inside weigh-grant on
	local status=$?
	chmod 755 "$root/usr/bin"
	return $status
}
again() {
	cp "$deb" "$root/tmp/weigh.deb"
	check "deb: it installs over itself" inside dpkg -i /tmp/weigh.deb
	rm "$root/tmp/weigh.deb"
}

# What the shell that is always there offers after `weigh r`.
completes() {
	check "$1: bash completes" same "report run" "$(shell "source $2; COMP_WORDS=(weigh r) COMP_CWORD=1; _weigh weigh r weigh;
		echo \${COMPREPLY[*]}" | tr ' ' '\n' | sort | paste -sd' ')"
}

check "the bare root has no toolchain" no_toolchain
check "the bare root has no network" only_loopback
# What a bare system may lack, and the package only suggests.
PATH=$PATH:/usr/sbin:/sbin
for tool in setcap getcap; do
	inside sh -c "command -v $tool" >/dev/null || install -m 755 "$(command -v $tool)" "$root/usr/sbin/$tool"
done
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
granted
check "deb: dpkg removes it" inside dpkg -r weigh
check "deb: the copy is removed, too" test ! -e "$root/usr/bin/weigh-privileged"
check "deb: dpkg purges it" inside dpkg -P weigh
check "deb: dpkg no longer knows it" shell '! dpkg -s weigh'
check "deb: the group is gone" shell '! getent group weigh'
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

# By this machine's rpm, into a root that is no Fedora's: what it requires is not looked for.
rpm() { command rpm --root "$root" --dbpath /var/lib/rpm "$@"; }
check "rpm: it is installed" rpm --nodeps -i "$rpm"
check "rpm: it is installed whole" same "" "$(rpm --nodeps -V weigh)"
check "rpm: the version" same "weigh $version" "$(inside weigh --version 2>&1)"
check_status "rpm: the command's exit status is kept" 3 inside weigh run --quiet -o /tmp/rpm -- sh -c 'exit 3'
check "rpm: the page says so" shell "weigh show /tmp/rpm | grep -q 'exited 3'"
check "rpm: the group is there, and empty" same "" "$(shell 'getent group weigh | cut -d: -f4')"
check "rpm: the administrator makes the copy" inside weigh-grant on
echo >>"$root/usr/bin/weigh-privileged"
check "rpm: it is upgraded" rpm --nodeps -U --force "$rpm"
check "rpm: an upgrade makes the copy anew" same $'750 root:weigh\ncap_perfmon,cap_bpf=ep' \
	"$(privileged; cmp "$root/usr/bin/weigh" "$root/usr/bin/weigh-privileged")"
check "rpm: the administrator takes it away" inside weigh-grant off
check "rpm: it is upgraded again" rpm --nodeps -U --force "$rpm"
check "rpm: an upgrade leaves it so" same "off: weigh has no capabilities here" "$(inside weigh-grant status)"
check "rpm: it is made before the package is removed" inside weigh-grant on
check "rpm: it is removed" rpm --nodeps -e weigh
check "rpm: the copy is removed, too" test ! -e "$root/usr/bin/weigh-privileged"
rm -rf "${root:?}"/tmp/rpm "$root/var/lib/rpm"
# RPM packages leave their groups: files may be theirs still.
inside groupdel weigh
files >"$results/after"
check "rpm: nothing is left behind" diff "$results/before" "$results/after"

rm -f "$said"
exit $failures
