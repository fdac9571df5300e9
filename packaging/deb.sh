#!/bin/bash
# Makes a Debian package of a built weigh: OUTPUT_DIR/weigh_VERSION-1_ARCHITECTURE.deb, whose name
# it prints. It needs nothing that a Debian does not have after its installation.
#
# usage: deb.sh WEIGH_BINARY OUTPUT_DIR
#
# DEBFULLNAME and DEBEMAIL, if set, name who packages it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin "$@"

case $machine in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
esac
libraries=lib/$machine-linux-gnu
revision=$version-1
# .invalid: a name that no mail can ever be sent to (RFC 2606).
maintainer="${DEBFULLNAME:-The weigh contributors} <${DEBEMAIL:-weigh@packages.invalid}>"
root=$scratch/root
file=$output/weigh_${revision}_$architecture.deb

# From the binary itself, not from the libraries of the machine that packages: dpkg-shlibdeps
# would say the same where it is installed, and nothing where it is not.
depends() {
	local library names=()
	while read -r library; do
		case $library in
		libgcc_s.so.1) names+=("libgcc-s1") ;;
		libc.so.6) names+=("libc6 (>= $(glibc_least "$weigh" "$root/usr/$libraries/libweigh.so.0"))") ;;
		esac
	done < <(libraries "$weigh" | sort)
	local IFS=,
	echo "${names[*]}" | sed 's/,/, /g'
}

debian_changelog() {
	cat <<-TEXT
		weigh ($revision) unstable; urgency=medium

		  * See /usr/share/doc/weigh/changelog.gz.

		 -- $maintainer  $(date --utc --date="@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')
	TEXT
}

control() {
	cat <<-TEXT
		Package: weigh
		Version: $revision
		Architecture: $architecture
		Maintainer: $maintainer
		Installed-Size: $(du --apparent-size -sk "$root/usr" | cut -f1)
		Depends: $(depends)
		Suggests: libcap2-bin, python3
		Section: utils
		Priority: optional
		Description: $(sed -n 's/^description = "\(.*\)"/\1/p' "$top/crates/cli/Cargo.toml" | sed 's/^A/a/')
		 weigh runs a command and accounts for what it uses: time, CPU, memory, I/O,
		 storage, files, network, processes, waiting, GPU. The whole job is measured:
		 every process that descends from the command, however it got there and
		 however short it lived. The kernel itself follows the job, by BPF.
		 .
		 Each value says where it comes from and how far it can be trusted. Limits on
		 any of them end the job. Without root weigh measures what /proc and wait(2)
		 tell; "weigh doctor" says what works on a machine, and why the rest does not.
	TEXT
}

# What an administrator has allowed once is kept until the package is purged; the copy itself goes with the package.
scripts() {
	cat >"$root/DEBIAN/postinst" <<-TEXT
		#!/bin/sh
		set -e
		if [ "\$1" = configure ]; then
			$(maintainer_script group)
			$(maintainer_script renew)
		fi
	TEXT
	cat >"$root/DEBIAN/prerm" <<-TEXT
		#!/bin/sh
		set -e
		if [ "\$1" = remove ]; then $(maintainer_script remove); fi
	TEXT
	cat >"$root/DEBIAN/postrm" <<-TEXT
		#!/bin/sh
		set -e
		if [ "\$1" = purge ]; then
			rm -f /etc/weigh/granted
			rmdir /etc/weigh 2>/dev/null || true
			! getent group weigh >/dev/null || groupdel weigh
		fi
	TEXT
	chmod 755 "$root"/DEBIAN/{postinst,prerm,postrm}
}

stage "$root/usr" vendor-completions "$libraries" lib/python3/dist-packages
debian_changelog | gzip -9n >"$root/usr/share/doc/weigh/changelog.Debian.gz"
mkdir "$root/DEBIAN"
control >"$root/DEBIAN/control"
scripts
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
settle "$root"
# One thread: xz splits what several pack differently.
DPKG_DEB_THREADS_MAX=1 dpkg-deb -Zxz "-z$level" --root-owner-group --build "$root" "$file" >/dev/null
echo "$file"
