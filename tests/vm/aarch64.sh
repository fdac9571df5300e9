#!/bin/bash
# weigh on another kind of processor: builds it, and the workloads, for aarch64, boots Debian's 6.1 kernel
# for it in QEMU, and holds what each mechanism says there against exact amounts. By hand: it takes ten
# minutes the first time. Needs Debian, root or sudo, and rustup.
#
# usage: aarch64.sh [WEIGH]    WEIGH: a binary for aarch64; it is built if none is given
#
# Prints `ok NAME` or `FAIL NAME …` for each; the status is 1 if any failed, 125 if the guest could not
# be made or did not come to an end.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=$repository/tests/vm/cache/aarch64
triple=aarch64-unknown-linux-gnu
root=$cache/root

fail() {
	echo "aarch64.sh: $*" >&2
	exit 125
}

as_root() { if ((EUID)); then sudo "$@"; else "$@"; fi; }

install_missing() {
	command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-system-aarch64 >/dev/null &&
		[[ -e /usr/lib/aarch64-linux-gnu/libelf.a && -e /usr/lib/aarch64-linux-gnu/libz.a ]] && return
	as_root dpkg --add-architecture arm64
	as_root apt-get update -qq
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc-aarch64-linux-gnu \
		libc6-dev-arm64-cross qemu-system-arm libelf-dev:arm64 zlib1g-dev:arm64 >&2
}

build() {
	local target=${CARGO_TARGET_DIR:-$repository/target}
	rustup --quiet target add $triple
	(
		cd "$repository"
		export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CARGO_PROFILE_RELEASE_LTO=false
		export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar
		cargo build --release --locked -p weigh --target $triple >&2
	)
	weigh=$target/$triple/release/weigh
}

# The kernel and the few programs of the guest, as Debian has them.
get_packages() {
	local kernel names
	[[ ! -e $cache/vmlinuz ]] || return 0
	mkdir -p "$cache/packages"
	kernel=$(apt-cache depends linux-image-cloud-arm64:arm64 | sed -n 's/^ *Depends: \(linux-image-6.1[^ ]*\)/\1/p')
	[[ -n $kernel ]] || fail "apt offers no linux-image-cloud-arm64 of 6.1 (Debian 12)"
	names=("$kernel" busybox-static:arm64 bash:arm64 libtinfo6:arm64 libgcc-s1:arm64 libc6:arm64)
	(cd "$cache/packages" && apt-get -o APT::Sandbox::User=root download -qq "${names[@]}") || fail "apt-get could not download ${names[*]}"
	for package in "$cache"/packages/*.deb; do
		case $package in
		*/linux-image*) dpkg-deb --fsys-tarfile "$package" | tar -C "$cache" -x --wildcards --strip-components=2 './boot/vmlinuz-*' ;;
		*) dpkg-deb -x "$package" "$cache/programs" ;;
		esac
	done
	mv "$cache"/vmlinuz-* "$cache/vmlinuz"
}

make_root() {
	rm -rf "$root"
	cp -a "$cache/programs" "$root"
	mkdir -p "$root"/{proc,sys,dev,tmp,run,root,etc,workloads,usr/local/bin}
	for applet in $(busybox --list); do
		[[ -e $root/bin/$applet ]] || ln -s busybox "$root/bin/$applet"
	done
	printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$root/etc/passwd"
	cp -L "$weigh" "$root/usr/local/bin/weigh"
	make -s -C "$repository/tests/workloads" BIN="$cache/workloads" CC=aarch64-linux-gnu-gcc
	cp "$cache"/workloads/{io,probed}{,-static} "$root/workloads/"
	cp "$repository/tests/vm/aarch64-checks.sh" "$root/checks"
	cat >"$root/init" <<'INIT'
#!/bin/busybox sh
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root TERM=dumb NO_COLOR=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm
for place in /dev/shm /tmp /run; do mount -t tmpfs tmpfs $place; done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
ln -sf /proc/self/fd /dev/fd
ip link set lo up
bash /checks </dev/null 2>&1
echo "VM-EXIT-STATUS $?"
reboot -f
INIT
	chmod +x "$root/init"
	(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$cache/initrd.gz"
}

weigh=${1:-}
install_missing
[[ -n $weigh ]] || build
get_packages
make_root
console=$cache/console.log
timeout 900 qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on -accel tcg,thread=multi -smp 2 -m 3072 -display none \
	-nic none -no-reboot -serial "file:$console" -monitor none -kernel "$cache/vmlinuz" -initrd "$cache/initrd.gz" \
	-append "console=ttyAMA0 loglevel=4 rdinit=/init panic=-1" </dev/null || fail "QEMU ended with $?; $console has its words"
status=$(tr -d '\r' <"$console" | sed -n 's/^VM-EXIT-STATUS \([0-9]*\)$/\1/p')
tr -d '\r' <"$console" | grep -E '^(ok|FAIL|     )' || true
[[ -n $status ]] || fail "the guest did not come to an end; $console has its words"
exit "$status"
