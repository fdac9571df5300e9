#!/bin/bash
# Runs a command as root on Debian's stock 6.1 cloud kernel, in QEMU without KVM, on a minimal root
# file system made for the occasion. See README.md beside it.
#
# usage: run.sh [options] -- COMMAND [ARGS…]
#   --file SRC[:DST]    copy a file or folder into the guest; the shared libraries that an
#                       executable needs come with it. DST: absolute; by default
#                       /usr/local/bin/NAME if SRC is executable, else /root/NAME. Repeatable
#   --fetch SRC:DST     copy a file of the guest to DST after the run, if it is there. Repeatable
#   --env NAME=VALUE    set a variable for the command. Repeatable
#   --module NAME       put a module of the kernel at /modules/NAME.ko, and at /modules/NAME-bare.ko one that
#                       does not tell its types; without the kernel's package there is none. Repeatable
#   --append WORDS      more kernel parameters
#   --timeout S         seconds for boot and command together (default 300)
#   --memory MIB        memory of the guest (default 2048)
#   --disk MIB          free space on its root (default 512; /tmp is memory)
#   --cpus N            (default 2)
#   --kernel VMLINUZ    another kernel (ext4, NVMe and an 8250 console built in)
#   --log FILE          keep the kernel's messages
#   --in-turns          both processors in one thread: with two the emulator may go on with code that the
#                       other one has just changed, as the kernel does where tracepoints are attached, and
#                       the guest stands still
#   --verbose           say what is done, with times, on stderr
#
# stdout is what the command says on stdout and stderr, byte by byte. The status is the command's;
# 124 after --timeout, 125 if the guest could not be made or did not come to an end by itself, 2
# for a wrong option.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$here/cache
workloads=$(dirname "$here")/workloads/bin

say() { echo "run.sh: $*" >&2; }
fail() {
	say "$@"
	exit 125
}
misused() {
	say "$@"
	say "usage: run.sh [options] -- COMMAND [ARGS…]; the options are at the top of $0"
	exit 2
}
progress() { [[ -z $verbose ]] || say "$(printf '%5.1f s  %s' "$(seconds_so_far)" "$*")"; }
seconds_so_far() { awk -v a="$started" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'; }

started=$EPOCHREALTIME
timeout=300 memory=2048 disk=512 cpus=2 threads=multi kernel= log= verbose= append=
files=() fetches=() environment=() modules=()

is_number() { [[ $2 =~ ^[1-9][0-9]*$ ]] || misused "$1 must be a whole number above 0, not '$2'"; }

while (($#)); do
	option=$1
	case $option in
	--)
		shift
		break
		;;
	--verbose)
		verbose=1
		shift
		continue
		;;
	--in-turns)
		threads=single
		shift
		continue
		;;
	--help | -h)
		sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
		exit 0
		;;
	--*) ;;
	*) misused "'$option' comes before the -- that begins the command" ;;
	esac
	(($# >= 2)) || misused "$option needs a value"
	value=$2
	shift 2
	case $option in
	--timeout | --memory | --disk | --cpus)
		is_number "$option" "$value"
		printf -v "${option#--}" %s "$value"
		;;
	--module) modules+=("$value") ;;
	--kernel | --log | --append) printf -v "${option#--}" %s "$value" ;;
	--file) files+=("$value") ;;
	--fetch)
		[[ $value == /*:?* ]] || misused "--fetch needs /PATH/IN/GUEST:DST, not '$value'"
		fetches+=("$value")
		;;
	--env)
		[[ $value =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || misused "--env needs NAME=VALUE, not '$value'"
		environment+=("$value")
		;;
	*) misused "there is no option $option" ;;
	esac
done
(($#)) || misused "no command was given"

# --- what this machine must have -------------------------------------------------------------

install_missing() {
	local missing=() as_root=()
	command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
	command -v mke2fs >/dev/null || [[ -x /sbin/mke2fs ]] || missing+=(e2fsprogs)
	[[ -x /bin/busybox ]] && is_static /bin/busybox || missing+=(busybox-static)
	((${#missing[@]})) || return 0
	command -v apt-get >/dev/null || fail "missing here: ${missing[*]}; and there is no apt-get to install them"
	if ((EUID)); then
		command -v sudo >/dev/null || fail "missing here: ${missing[*]}; install them, or run this as root"
		as_root=(sudo)
	fi
	progress "installing ${missing[*]}"
	quietly "${as_root[@]}" apt-get update -qq || fail "apt-get update failed"
	quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		"${missing[@]}" || fail "apt-get could not install ${missing[*]}"
}

# Runs a command; shows what it said only if it failed.
quietly() {
	"$@" >"$scratch/said" 2>&1 && return
	cat "$scratch/said" >&2
	return 1
}

# Whether a file is an ELF file; whether the loader says that it needs no loader.
is_elf() { [[ $(head -c 4 "$1" 2>/dev/null | tr -d '\0') == $'\x7fELF' ]]; }
is_static() { is_elf "$1" && ! LC_ALL=C ldd "$1" >/dev/null 2>&1; }

# The kernel that the release's linux-image-cloud-amd64 stands for, without installing it.
get_kernel() {
	local kept package
	mkdir -p "$cache"
	kept=$(newest_kept)
	if [[ -n $kept ]]; then
		kernel=$kept
		return
	fi
	command -v apt-get >/dev/null || fail "no kernel in $cache and no apt-get to get one: give --kernel"
	package=$(kernel_package)
	if [[ -z $package ]]; then
		quietly apt-get update -qq || fail "apt-get update failed; it is needed to find the kernel package"
		package=$(kernel_package)
	fi
	[[ $package == linux-image-6.1.* ]] ||
		fail "apt offers '${package:-nothing}' as linux-image-cloud-amd64, not a 6.1 kernel (Debian 12): give --kernel"
	progress "downloading $package"
	(cd "$scratch" && quietly apt-get -o APT::Sandbox::User=root download -qq "$package") || fail "apt-get could not download $package"
	dpkg-deb --fsys-tarfile "$scratch/$package"_*.deb | tar -C "$scratch" -x ./boot || fail "$package cannot be unpacked"
	mv "$scratch"/boot/vmlinuz-6.1.* "$cache/" || fail "$package holds no vmlinuz"
	kernel=$(newest_kept)
}

# Modules of the kept kernel, out of its package, once.
get_modules() {
	local version=${kernel##*/vmlinuz-} module kept missing=()
	kept=$cache/modules-$version
	for module in ${modules[@]+"${modules[@]}"}; do
		[[ -e $kept/$module.ko ]] || missing+=("$module")
	done
	((${#missing[@]})) || return 0
	progress "downloading linux-image-$version for its modules"
	(cd "$scratch" && quietly apt-get -o APT::Sandbox::User=root download -qq "linux-image-$version") || {
		say "without ${missing[*]}: the package linux-image-$version cannot be downloaded"
		return 0
	}
	mkdir -p "$kept"
	for module in "${missing[@]}"; do
		dpkg-deb --fsys-tarfile "$scratch/linux-image-$version"_*.deb |
			tar -C "$scratch" -x --wildcards "./lib/modules/*/$module.ko" || fail "the package has no module $module"
		find "$scratch/lib" -name "$module.ko" -exec mv {} "$kept/" \;
		objcopy --remove-section=.BTF "$kept/$module.ko" "$kept/$module-bare.ko" || fail "objcopy of $module"
	done
}

newest_kept() { find "$cache" -maxdepth 1 -name 'vmlinuz-6.1.*' | sort -V | tail -1; }

kernel_package() {
	apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -1
}

# --- the root file system --------------------------------------------------------------------

# copy_in SRC DST: a file or folder, and the libraries of the executables in it.
copy_in() {
	mkdir -p "$root$(dirname "$2")"
	cp -rL "$1" "$root$2" || fail "$1 cannot be copied"
	local programs
	mapfile -d '' programs < <(find -L "$1" -type f \( -perm -u+x -o -name '*.so*' \) -print0)
	((${#programs[@]} == 0)) || copy_libraries "${programs[@]}"
}

declare -A copied=()

# copy_libraries PROGRAM...: what is no program of the loader's needs none.
copy_libraries() {
	local library
	while IFS= read -r library; do
		[[ -z ${copied[$library]-} ]] || continue
		copied[$library]=1
		[[ -e $library ]] || fail "$library is not here; one of these needs it: $*"
		mkdir -p "$root$(dirname "$library")"
		cp -L "$library" "$root$library"
	done < <(LC_ALL=C ldd "$@" 2>/dev/null | sed -n 's/^\t\(.* => \)\?\(\/[^ ]*\) (0x.*/\2/p;s/^\t\(.*\) => not found$/\1/p')
}

make_root() {
	local file source target module
	mkdir -p "$root"/{boot,dev,proc,sys,tmp,run,root,etc,var/tmp,workloads,usr/{bin,sbin,lib,lib64,local/bin}}
	for link in bin sbin lib lib64; do
		ln -s "usr/$link" "$root/$link"
	done
	/bin/busybox --install -s "$root/bin"
	cp -L --remove-destination /bin/busybox "$root/bin/busybox"
	# Programs that tests start themselves are real, dynamic ones.
	for program in bash true sleep env dd nice timeout taskset setpriv unshare; do
		rm -f "$root/bin/$program"
		copy_in "$(command -v "/bin/$program")" "/bin/$program"
	done
	printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$root/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
	printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
	echo vm >"$root/etc/hostname"
	# Where Debian has it, if it is Debian's: what analyses the running kernel looks for it there.
	cp -L "$kernel" "$root/boot/$(basename "$kernel")"
	[[ ! -d $workloads ]] || copy_in "$workloads/." /workloads
	for file in ${files[@]+"${files[@]}"}; do
		source=${file%%:*} target=
		[[ $file != *:* ]] || target=${file#*:}
		[[ -e $source ]] || fail "--file $file: there is no $source"
		if [[ -z $target ]]; then
			target=/root/$(basename "$source")
			[[ ! -f $source || ! -x $source ]] || target=/usr/local/bin/$(basename "$source")
		fi
		[[ $target == /* ]] || misused "--file $file: the place in the guest must begin with /"
		copy_in "$source" "$target"
	done
	for module in ${modules[@]+"${modules[@]}"}; do
		for file in "$cache/modules-${kernel##*/vmlinuz-}/$module"{,-bare}.ko; do
			[[ ! -e $file ]] || copy_in "$file" "/modules/$(basename "$file")"
		done
	done
	make_init "$@"
}

make_init() {
	{
		echo '#!/bin/bash'
		echo 'cd /root'
		local assignment
		for assignment in ${environment[@]+"${environment[@]}"}; do
			printf 'export %s=%q\n' "${assignment%%=*}" "${assignment#*=}"
		done
		printf 'exec'
		printf ' %q' "$@"
		echo
	} >"$root/command"
	cat >"$root/init" <<'INIT'
#!/bin/busybox sh
# Process 1. The kernel's console is ttyS0; the command gets ttyS1 for itself.
export PATH=/usr/local/bin:/usr/bin:/usr/sbin HOME=/root TERM=dumb NO_COLOR=1 LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for place in /dev/shm /tmp /run; do mount -t tmpfs tmpfs $place; done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
ln -sf /proc/self/fd /dev/fd
ln -sf /proc/self/fd/0 /dev/stdin
ln -sf /proc/self/fd/1 /dev/stdout
ln -sf /proc/self/fd/2 /dev/stderr
hostname -F /etc/hostname
ip link set lo up
# Raw: what the command writes arrives as it is.
stty -F /dev/ttyS1 raw -echo
echo VM-START >/dev/ttyS0
setsid /bin/bash /command </dev/null >/dev/ttyS1 2>&1
status=$?
stty -F /dev/ttyS1 raw -echo
sync
mount -o remount,ro / 2>/dev/null
printf '\nVM-EXIT-STATUS %d\n' "$status" >/dev/ttyS0
reboot -f
INIT
	chmod +x "$root/command" "$root/init"
}

make_image() {
	local used mke2fs
	mke2fs=$(command -v mke2fs || echo /sbin/mke2fs)
	used=$(du -sm --apparent-size "$root" | cut -f1)
	truncate -s "$((used + used / 8 + disk + 64))M" "$image"
	"$mke2fs" -q -F -t ext4 -E root_owner=0:0,lazy_itable_init=1,lazy_journal_init=1 -d "$root" "$image" >&2 ||
		fail "the root file system could not be made (is the temporary folder full?)"
}

# --- the run ---------------------------------------------------------------------------------

scratch=$(mktemp -d "${TMPDIR:-/tmp}/weigh-vm.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root image=$scratch/root.img console=$scratch/console.log
mkdir "$root"

install_missing
[[ -n $kernel ]] || get_kernel
((${#modules[@]} == 0)) || get_modules
[[ -r $kernel ]] || fail "the kernel $kernel cannot be read"
progress "kernel $kernel"
make_root "$@"
make_image
progress "root file system made, starting"

machine=
trap '[[ -z $machine ]] || kill "$machine" 2>/dev/null; exit 130' INT
trap '[[ -z $machine ]] || kill "$machine" 2>/dev/null; exit 143' TERM

# In the background, so that a signal ends it at once.
status=0
timeout -k 5 "$timeout" qemu-system-x86_64 \
	-accel "tcg,thread=$threads" -cpu qemu64 -smp "$cpus" -m "$memory" -display none -nic none -no-reboot \
	-serial "file:$console" -serial stdio -monitor none \
	-kernel "$kernel" -drive "if=none,id=root,file=$image,format=raw,cache=unsafe" -device nvme,drive=root,serial=1 \
	-append "console=ttyS0 loglevel=5 root=/dev/nvme0n1 rw init=/init panic=-1 no_timer_check $append" </dev/null &
machine=$!
wait "$machine" || status=$?
machine=
progress "the machine has ended"
[[ -z $log ]] || cp "$console" "$log"

last_words() {
	say "the last messages of the kernel:"
	tail -n 25 "$console" 2>/dev/null | tr -d '\r' | cat -v >&2 || true
}

told=$(tr -d '\r' <"$console" 2>/dev/null | sed -n 's/^VM-EXIT-STATUS \([0-9]*\)$/\1/p' | tail -1)
if ((status == 124 || status == 137)) && [[ -z $told ]]; then
	last_words
	say "ended after --timeout $timeout s"
	exit 124
fi
if [[ -z $told ]]; then
	last_words
	if grep -q VM-START "$console" 2>/dev/null; then
		fail "the machine ended (QEMU: $status) while the command ran"
	fi
	fail "the machine ended (QEMU: $status) before the command was started"
fi
for fetch in ${fetches[@]+"${fetches[@]}"}; do
	rm -f "$scratch/fetched"
	"$(command -v debugfs || echo /sbin/debugfs)" -R "dump ${fetch%%:*} $scratch/fetched" "$image" >/dev/null 2>&1 || true
	if [[ ! -e $scratch/fetched ]]; then
		say "--fetch: the guest has left no ${fetch%%:*}"
		((told != 0)) || exit 125
		continue
	fi
	mv "$scratch/fetched" "${fetch#*:}" || fail "--fetch: ${fetch#*:} cannot be written"
done

exit "$told"
