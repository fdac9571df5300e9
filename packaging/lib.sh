# What deb.sh, rpm.sh and tarball.sh have in common; they source it.
#
# The same binary and the same commit give the same package, byte by byte: all times are those of
# SOURCE_DATE_EPOCH (by default the commit's), all modes are set here.
#
# Why the binary is not linked wholly statically: weigh opens NVIDIA's library at run time, which
# brings its own libc. A static glibc has no place for a second one, and weigh ended by SIGSEGV as
# soon as such a library had a thread, or data of a thread. So glibc and libgcc_s, which no Debian is without because
# its essential packages need them, stay shared; all else is in the binary, held to by
# `check_libraries`.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# The last three are empty since glibc 2.34; older ones have parts of libc.so.6 there. See crates/cli/build.rs.
allowed_libraries='libc\.so\.6|libm\.so\.6|libgcc_s\.so\.1|ld-linux-[a-z0-9-]+\.so\.[0-9]|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1'
# What RHEL 8 has; Ubuntu 20.04 and Debian 11 have 2.31.
oldest_glibc=2.28

fail() {
	echo "${0##*/}: $*" >&2
	exit 1
}

# How hard packages are compressed, from 0 to 9; tests are content with little.
level=${WEIGH_PACKAGE_LEVEL:-6}

# begin BINARY OUTPUT_DIR: sets weigh, output, version, machine, SOURCE_DATE_EPOCH and scratch, a
# folder that is gone in the end.
begin() {
	(($# == 2)) || fail "usage: ${0##*/} WEIGH_BINARY OUTPUT_DIR"
	weigh=$(realpath "$1") output=$2
	[[ -f $weigh && -x $weigh ]] || fail "$1 is no program"
	version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$top/Cargo.toml")
	[[ -n $version ]] || fail "Cargo.toml has no version"
	[[ $("$weigh" --version) == "weigh $version" ]] ||
		fail "$1 says it is $("$weigh" --version), Cargo.toml that it is $version: build it again"
	machine=$(LC_ALL=C readelf -h "$weigh" | sed -n 's/^ *Machine: *//p')
	case $machine in
	*X86-64) machine=x86_64 ;;
	AArch64) machine=aarch64 ;;
	*) fail "$1 is for '$machine'; packages are made for x86_64 and aarch64" ;;
	esac
	if [[ -z ${SOURCE_DATE_EPOCH:-} ]]; then
		SOURCE_DATE_EPOCH=$(git -C "$top" log -1 --format=%ct 2>/dev/null) ||
			SOURCE_DATE_EPOCH=$(stat -c %Y "$top/CHANGELOG.md")
	fi
	export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
	check_libraries "$weigh"
	mkdir -p "$output"
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
}

# The shared libraries that a binary asks for, one a line.
libraries() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p'; }

check_libraries() {
	local others
	others=$(libraries "$1" | grep -vxE "$allowed_libraries" | paste -sd' ') || return 0
	[[ -z $others ]] || fail "$1 needs $others, which not every Debian has: link it statically"
}

# The least glibc that has every versioned symbol the binaries ask for, as 2.34.
glibc_least() {
	readelf -W --version-info "$@" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -Vu | tail -n 1
}

# libweigh TREE LIBRARIES: the C library, made by the compiler that is here, its headers, and what
# pkg-config wants to know, wherever the tree will lie. Several packages may share what is compiled.
libweigh() {
	local tree=$1 libraries=$2 up=${2//[^\/]/} built=${WEIGH_PACKAGE_BUILD:-$scratch/libweigh}
	up='$${pcfiledir}/../..'${up//\//\/..}
	rm -f "$built/weigh.pc"
	make -s -C "$top/libweigh" install OUT="$built" CFLAGS=-O2 DESTDIR="$tree" PREFIX= \
		LIBDIR="$libraries" PC_PREFIX="$up" >/dev/null || fail "libweigh does not build"
	check_libraries "$tree/$libraries/libweigh.so.0"
	strip --strip-unneeded "$tree/$libraries/libweigh.so.0"
	strip --strip-debug --enable-deterministic-archives "$tree/$libraries/libweigh.a"
	units "$tree/lib/systemd/system"
}

# units FOLDER: of systemd, none of them started by itself; what has GPUs read is there to be copied.
units() {
	local unit
	for unit in weigh-agent.service weigh-web.service weigh-web.socket weigh-commands.service; do
		install -D -m 644 "$top/packaging/$unit" "$1/$unit"
	done
	install -D -m 644 "$top/packaging/weigh-agent-gpu.conf" "$1/weigh-agent.service.d/gpu.conf.example"
}

# python_module TREE LIBRARIES FOLDER: libweigh's module, with a link to the library, wherever the tree will lie.
python_module() {
	local module=$1/$3/weigh
	install -d "$module"
	install -m 644 "$top"/libweigh/python/weigh/*.py "$module"
	ln -s --relative "$1/$2/libweigh.so.0" "$module/libweigh.so"
}

# documents FOLDER: the pages, in folders as they are here, for they lead to each other.
documents() {
	local page
	(cd "$top/docs" && find . -name '*.md' -o -name '*.svg' -o -name '*.png' -o -name openapi.json) | while read -r page; do
		install -D -m 644 "$top/docs/$page" "$1/$page"
	done
}

# maintainer_script PART: what packages do beside unpacking, for /bin/sh.
maintainer_script() {
	case $1 in
	group) echo 'getent group weigh >/dev/null || groupadd --system weigh' ;;
	# It says itself what is missing; a package is not half installed for that.
	renew) echo '/usr/sbin/weigh-grant renew || true' ;;
	remove) echo 'rm -f /usr/bin/weigh-privileged' ;;
	forget) echo '/usr/sbin/weigh-grant off' ;;
	esac
}

# stage TREE ZSH_DIR LIBRARIES PYTHON_DIR: what is installed, below TREE, laid out as below /usr; the folders of
# zsh's completions, of libraries and of Python's modules differ between packages.
stage() {
	local tree=$1 zsh=$2 made=$scratch/generated page
	libweigh "$tree" "$3"
	"$weigh" generate "$made" >/dev/null || fail "weigh generate failed"
	install -D -m 755 "$weigh" "$tree/bin/weigh"
	strip --strip-unneeded "$tree/bin/weigh"
	install -D -m 755 "$top/packaging/weigh-grant" "$tree/sbin/weigh-grant"
	python_module "$tree" "$3" "$4"
	for page in "$made"/man/*.1; do
		install -D -m 644 "$page" "$tree/share/man/man1/${page##*/}"
	done
	gzip -9n "$tree"/share/man/man1/*.1
	install -D -m 644 "$made/completions/weigh.bash" "$tree/share/bash-completion/completions/weigh"
	install -D -m 644 "$made/completions/_weigh" "$tree/share/zsh/$zsh/_weigh"
	install -D -m 644 "$made/completions/weigh.fish" "$tree/share/fish/vendor_completions.d/weigh.fish"
	local doc=$tree/share/doc/weigh
	install -d "$doc"
	documents "$doc"
	cp "$made"/docs/*.md "$doc"
	cp "$top/packaging/copyright" "$doc/copyright"
	gzip -9n <"$top/CHANGELOG.md" >"$doc/changelog.gz"
	node "$top/packaging/licences.mjs" >"$scratch/licences" || fail "the licences cannot be collected"
	gzip -9n <"$scratch/licences" >"$doc/licences-of-others.gz"
}

# Modes and times of all below a folder, whichever user made it, with whatever umask.
settle() {
	find "$1" -type d -exec chmod 755 {} +
	find "$1" -type f -exec chmod u=rwX,go=rX {} +
	find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}
