#!/bin/bash
# The packages of weigh: made twice and the same, what is in them, and, given root, installed and
# used on a bare Debian with no toolchain and no network. Prints `ok NAME` or `FAIL NAME` for each.
#
# usage: test.sh WEIGH
#
# The bare root is made once, from the distribution's archive, and kept under target/.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$here/../target}")/package-test
weigh=$1
source "$here/lib.sh"
source "$here/test-lib.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" "$said"' EXIT
as_root=()
# What is made is looked at, not handed out.
export WEIGH_PACKAGE_LEVEL=0 WEIGH_PACKAGE_BUILD=$scratch/built
((EUID == 0)) || as_root=(sudo -n)

check "a Debian package is made" "$here/deb.sh" "$weigh" "$scratch/a"
check "an RPM is made" "$here/rpm.sh" "$weigh" "$scratch/a"
check "a tarball is made" "$here/tarball.sh" "$weigh" "$scratch/a"
deb=$(echo "$scratch"/a/*.deb) rpm=$(echo "$scratch"/a/*.rpm) tarball=$(echo "$scratch"/a/*.tar.gz)
[[ -s $deb && -s $rpm && -s $tarball ]] || exit 1

# From elsewhere, later, by someone else's habits.
again() (
	cd / && umask 077 && sleep 1.1
	export TZ=Asia/Kathmandu LANG=de_DE.UTF-8 TMPDIR=$scratch WEIGH_PACKAGE_BUILD=$scratch/built-again
	"$here/deb.sh" "$weigh" "$scratch/b" && "$here/rpm.sh" "$weigh" "$scratch/b" && "$here/tarball.sh" "$weigh" "$scratch/b" &&
		cmp "$deb" "$scratch/b/${deb##*/}" && cmp "$rpm" "$scratch/b/${rpm##*/}" && cmp "$tarball" "$scratch/b/${tarball##*/}"
)
check "made again they are the same, byte by byte" again

deb_root=$scratch/deb tar_root=$scratch/tar rpm_root=$scratch/rpm
mkdir "$deb_root" "$tar_root" "$rpm_root"
dpkg-deb -R "$deb" "$deb_root"
tar -C "$tar_root" --strip-components=1 -xzf "$tarball"
rpm2cpio "$rpm" | (cd "$rpm_root" && cpio -idm --quiet)
packed=$deb_root/usr/bin/weigh
field() { dpkg-deb -f "$deb" "$1"; }
version=$("$weigh" --version | cut -d' ' -f2)

check "the packages have the same binary" cmp "$packed" "$tar_root/bin/weigh"
check "the RPM, too" cmp "$packed" "$rpm_root/usr/bin/weigh"
# What lies in different folders of different packages apart.
names() { (cd "$1" && find . ! -type d -printf '%P\n' | sed -E 's#^lib(64|/[a-z0-9_]+-linux-gnu)/#lib/#
	s#^(lib/python3/dist-packages|share/weigh/python)/#python/#; s#zsh/[a-z-]+/#zsh/#' | grep -vE 'changelog\.Debian|LICENSE-' | sort); }
check "the packages have the same files" same "$(names "$deb_root/usr")" "$(names "$rpm_root/usr")"
check "the tarball, too" same "$(names "$deb_root/usr")" "$(names "$tar_root")"
check "no package grants a capability" same "" "$(PATH=$PATH:/usr/sbin:/sbin getcap -r "$deb_root" "$tar_root" "$rpm_root"; rpm -qp --filecaps "$rpm" | grep '=')"
check "it needs no library but glibc and libgcc_s" same "" "$(libraries "$packed" | grep -vxE "$allowed_libraries")"
check "it asks for no place where its libraries lie" same "" "$(readelf -d "$packed" | grep -E 'RPATH|RUNPATH')"
other_library_is_refused() {
	echo 'int main(void) { return (int)compress; }' | cc -include zlib.h -x c -w - -o "$scratch/other" -lz &&
		! (check_libraries "$scratch/other")
}
check "a binary that needs another library is refused" other_library_is_refused
# A program made with what is packed, wherever it lies, runs; without an agent it says so.
uses_library() {
	local tree=$1 libraries=$2
	cat >"$scratch/uses.c" <<-'TEXT'
		#include <stdio.h>
		#include <weigh.h>
		#include <weigh_region.h>
		int main(void) { WEIGH_REGION("main"); return puts(weigh_why(weigh_open())) < 0; }
	TEXT
	export PKG_CONFIG_PATH=$tree/$libraries/pkgconfig WEIGH_SOCKET=$scratch/nobody
	cc "$scratch/uses.c" -o "$scratch/uses" $(pkg-config --cflags --libs weigh) &&
		same "no agent of weigh answers" "$(LD_LIBRARY_PATH=$tree/$libraries "$scratch/uses")" &&
		cc "$scratch/uses.c" -o "$scratch/uses" $(pkg-config --cflags weigh) "$tree/$libraries/libweigh.a" &&
		same "no agent of weigh answers" "$("$scratch/uses")"
}
check "deb: a program is built with libweigh" uses_library "$deb_root/usr" "lib/$(uname -m)-linux-gnu"
check "tarball: a program is built with libweigh" uses_library "$tar_root" lib
# Python's module finds the library of its own package, and without an agent says so.
uses_module() {
	same "no agent of weigh answers" "$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$1 WEIGH_SOCKET=$scratch/nobody python3 -c \
		'import weigh; a = weigh.account("a"); a.__enter__(); a.__exit__(None, None, None); print(a.why)')"
}
check "deb: Python has the module" uses_module "$deb_root/usr/lib/python3/dist-packages"
check "rpm: Python has the module" uses_module "$rpm_root/usr/share/weigh/python"
check "tarball: Python has the module" uses_module "$tar_root/share/weigh/python"
check "libweigh needs no library but glibc" same "libc.so.6 libpthread.so.0" "$(libraries "$tar_root/lib/libweigh.so.0" | sort | paste -sd' ')"
check "libweigh shows its own functions and no others" same "" "$(nm -D --defined-only "$tar_root/lib/libweigh.so.0" |
	awk '$3 !~ /^weigh_[a-z_]*@@WEIGH_0$/ && $3 != "WEIGH_0@@WEIGH_0" && $3 != "WEIGH_0"')"
are_understood() {
	local units=$scratch/units unit
	mkdir -p "$units"
	for unit in "$tar_root"/lib/systemd/system/weigh-*.{service,socket}; do
		sed "s|^ExecStart=weigh|ExecStart=$tar_root/bin/weigh|; /^Documentation/d" "$unit" >"$units/${unit##*/}"
	done
	! systemd-analyze verify --man=no "$units"/*.service 2>&1 | grep weigh-
}
check "systemd understands the units" are_understood
is_confined() {
	local exposure
	exposure=$(systemd-analyze security --offline=true --no-pager "$1" | sed -n 's/.*Overall exposure level for [^:]*: \([0-9.]*\) .*/\1/p')
	echo "exposure: $exposure" && [[ -n $exposure ]] && awk "BEGIN { exit !($exposure <= 1.5) }"
}
for unit in agent web commands; do
	check "the unit weigh-$unit is confined: its exposure is 1.5 at most" is_confined "$here/weigh-$unit.service"
done
check "the version is Cargo.toml's" same "$version-1" "$(field Version)"
check "what it depends on is what its symbols ask for" same "libc6 (>= $(glibc_least "$packed" "$tar_root/lib/libweigh.so.0")), libgcc-s1" "$(field Depends)"
# The greatest version of glibc's symbols: of the binary, of libweigh, and of each library that weigh puts into a job's
# programs, as the programs see them.
preload_libraries() {
	local way
	for way in "run --quiet --mechanism preload --level 2" "run --quiet --mechanism preload --level 3" \
		"io --quiet --mechanism preload" "calls --quiet --mechanism preload"; do
		# The loader's variable names the library; the folder is gone with the job.
		"$weigh" $way -- sh -c 'for library in $(echo "$LD_PRELOAD" | tr : " "); do cp "$library" "$0"; done' \
			"$(mktemp -p "$scratch" preload.XXXX)" >&2 || return
	done
	echo "$scratch"/preload.*
}
asks_for_at_most() {
	local least=$1 library found
	shift
	for library; do
		found=$(glibc_least "$library")
		echo "${library##*/}: $found"
		[[ $found && $(printf '%s\n' "$found" "$least" | sort -V | tail -n 1) == "$least" ]] || return
	done
}
(cd "$scratch" && export XDG_STATE_HOME=$scratch/state && preload_libraries >"$scratch/preloaded")
check "glibc $oldest_glibc is enough for all of it" asks_for_at_most $oldest_glibc "$packed" "$tar_root/lib/libweigh.so.0" $(cat "$scratch/preloaded")
check "the library of each way was looked at" same 4 "$(wc -w <"$scratch/preloaded")"
check "an RPM asks for what its symbols do" same "GLIBC_$(glibc_least "$packed" "$tar_root/lib/libweigh.so.0")" \
	"$(rpm -qpR "$rpm" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)"
check "an RPM asks for no program but a shell and groupadd" same "/bin/sh /usr/sbin/groupadd" \
	"$(rpm -qpR "$rpm" | grep ^/ | sort -u | paste -sd' ')"
# Debian's own tool, where it is there; it adds versions that every release had for long, and takes what glibc 2.34 has
# moved into libc.so.6 for missing before.
shlibdeps() {
	mkdir -p "$scratch/source/debian" && touch "$scratch/source/debian/control"
	(cd "$scratch/source" && dpkg-shlibdeps -O "$packed" 2>/dev/null) |
		sed 's/^shlibs:Depends=//; s/ ([^)]*)//g'
}
! command -v dpkg-shlibdeps >/dev/null || check "dpkg-shlibdeps says the same" same "$(shlibdeps)" "$(field Depends | sed 's/ ([^)]*)//g')"
check "maintainer scripts are these, and there are no conffiles" same "control md5sums postinst postrm prerm" "$(ls "$deb_root/DEBIAN" | paste -sd' ')"
for script in "$here/weigh-grant" "$deb_root"/DEBIAN/{postinst,prerm,postrm}; do check "sh parses ${script##*/}" sh -n "$script"; done
check "everything is root's" same "" "$(dpkg-deb -c "$deb" | awk '$2 != "root/root"'; rpm -qplv "$rpm" | awk '$3 $4 != "rootroot"'; tar --numeric-owner -tvf "$tarball" | awk '$2 != "0/0"')"
check "modes are 755 of folders and programs, 644 of the rest" same "" "$(find "$deb_root/usr" "$tar_root"/* "$rpm_root"/* \
	\( -type d ! -perm 755 -o -type f -path '*bin/*' ! -perm 755 -o -type f ! -path '*bin/*' ! -perm 644 \))"
check "changelogs and licences are readable" bash -c "zcat '$deb_root'/usr/share/doc/weigh/*.gz | grep -q 'Keep a Changelog'"
check "the licences of what is linked are there" bash -c \
	"for who in libbpf-sys clap libelf zlib uplot @dagrejs/dagre; do zgrep -q \"^\$who \\|^\$who,\" '$deb_root/usr/share/doc/weigh/licences-of-others.gz' || { echo \$who; exit 1; }; done"

# well_formed PAGE VERB: the formatter has no complaint, and each long option is in what it shows.
well_formed() {
	local option shown
	# All warnings; lines that are not folded; no overstriking.
	shown=$(zcat -f "$1" | groff -man -K utf8 -T utf8 -ww -rLL=500n -P -cbou 2>"$scratch/complaints")
	zcat -f "$1" | grep -qE "^\.TH [^ ]+ 1 +\"weigh $version\"" || { echo "the title names no version"; return 1; }
	[[ ! -s $scratch/complaints ]] || { cat "$scratch/complaints"; return 1; }
	for option in NAME SYNOPSIS DESCRIPTION $("$weigh" ${2:+$2} --help | grep -oE '^ +(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+'); do
		grep -qF -- "$option" <<<"$shown" || { echo "$option is not in it"; return 1; }
	done
}
for verb in "" run show report doctor "doctor kernel" agent calls; do
	page=${verb:+-$verb}
	check "the page of weigh${verb:+ $verb} is well formed" well_formed "$deb_root/usr/share/man/man1/weigh${page// /-}.1.gz" "$verb"
done
printf '.TH x 1 "weigh %s"\n.SH NAME\nx\n.QQ\n' "$version" >"$scratch/bad.1"
check_status "a page that is not is found out" 1 well_formed "$scratch/bad.1"

completions=$deb_root/usr/share
check "bash parses its completions" bash -n "$completions/bash-completion/completions/weigh"
check "zsh parses its completions" zsh -n "$completions/zsh/vendor-completions/_weigh"
check "zsh's say what they are for" same "#compdef weigh" "$(head -n 1 "$completions/zsh/vendor-completions/_weigh")"
check "fish completes" same "report run" "$(HOME=$scratch fish --no-config -c \
	"source $completions/fish/vendor_completions.d/weigh.fish; complete -C 'weigh r'" | cut -f1 | sort | paste -sd' ')"

if ((EUID)) && ! sudo -n true 2>/dev/null; then
	echo "neither root nor sudo: tests on a bare system are left out"
	exit $failures
fi

bare=$target/bare-$(source /etc/os-release && echo "${VERSION_CODENAME:-$ID}").tar
check "a bare system is there" "${as_root[@]}" env PATH="$PATH" "$here/bare-root.sh" "$bare"
[[ -s $bare ]] || exit 1
cc -shared -fPIC -O1 -o "$scratch/stub.so" "$here/nvml-stub.c" || exit 1
# The mounts are gone with the namespace before the folder is.
root=$(mktemp -d -p "$target") && mkdir "$scratch/results"
trap '"${as_root[@]}" rm -rf --one-file-system "$root"; rm -rf "$scratch" "$said"' EXIT
"${as_root[@]}" tar -C "$root" -xpf "$bare"
"${as_root[@]}" unshare --mount --net "$here/test-bare.sh" "$root" "$version" "$deb" "$tarball" "$rpm" "$scratch/stub.so" "$scratch/results" || failures=1

# The oldest glibc that the archive has: weigh asks for none of its newer symbols, and starts with it.
old=$target/old.tar
check "a system with an old glibc is there" "$here/old-root.sh" "$old"
if [[ -s $old ]]; then
	old_root=$(mktemp -d -p "$target")
	trap '"${as_root[@]}" rm -rf --one-file-system "$root" "$old_root"; rm -rf "$scratch" "$said"' EXIT
	"${as_root[@]}" tar -C "$old_root" -xpf "$old" && "${as_root[@]}" install -m 755 "$packed" "$old_root/usr/bin/weigh"
	"${as_root[@]}" unshare --mount "$here/test-old.sh" "$old_root" "$version" || failures=1
fi

# The bare system takes nothing away: there weigh measures all that it measures here.
# In an empty folder: the disk footprint is that of the working directory.
mkdir "$scratch/empty"
weigh=$(realpath "$weigh")
(cd "$scratch/empty" && "${as_root[@]}" "$weigh" run --quiet --interval 100ms --json "$scratch/here.json" -o "$scratch/here" -- sleep 1)
"${as_root[@]}" "$weigh" doctor >/dev/null 2>&1
status=$?
# A root that was changed to is no mount: what room its file system has is not known there.
known() { node -e 'const s = JSON.parse(require("fs").readFileSync(process.argv[1]));
	for (const [n, v] of Object.entries(s.metrics)) if (v.value !== null && !n.startsWith("disk_free_")) console.log(n)' "$1"; }
for package in deb tarball; do
	check "$package: as much is measured as where it was built" same "$(known "$scratch/here.json")" "$(known "$scratch/results/$package.json")"
	check "$package: doctor finds as well" same "$status" "$(cat "$scratch/results/$package.doctor-status")"
done
exit $failures
