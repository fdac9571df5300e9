#!/bin/bash
# Makes an RPM package of a built weigh: OUTPUT_DIR/weigh-VERSION-1.MACHINE.rpm, whose name it prints. It needs rpmbuild.
#
# usage: rpm.sh WEIGH_BINARY OUTPUT_DIR
#
# What it requires rpmbuild finds in the binaries themselves: the versions of glibc's symbols. It runs wherever these
# are, on Fedora, RHEL and SUSE alike.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
begin "$@"
command -v rpmbuild >/dev/null || fail "rpmbuild is missing (Debian's package rpm)"

libraries=lib64
file=$output/weigh-$version-1.$machine.rpm
root=$scratch/root

# A file is listed as it is; folders of others' are not, but for those that a system without a shell or compiler that
# owns them lacks.
files() {
	(cd "$root" && find . ! -type d -printf '%P\n' | sort | sed 's|^|/|')
	(cd "$root" && find . -type d \( -name weigh -o -path '*/weigh/*' -o -path '*/fish*' -o -path '*/zsh*' -o -name pkgconfig -o -name 'weigh-*.d' \) -printf '%%dir /%P\n' | sort)
}

spec() {
	cat <<-TEXT
		Name: weigh
		Version: $version
		Release: 1
		Summary: $(sed -n 's/^description = "\(.*\)"/\1/p' "$top/crates/cli/Cargo.toml")
		License: (Apache-2.0 OR MIT) AND (GPL-2.0-only OR BSD-2-Clause)
		Requires(post): /usr/sbin/groupadd
		Suggests: libcap
		%description
		weigh runs a command and accounts for what it uses: time, CPU, memory, I/O, storage, files, network,
		processes, waiting, GPU. The whole job is measured, and each value says where it comes from and how far it
		can be trusted. Without root weigh measures what /proc and wait(2) tell.
		%install
		mkdir -p %{buildroot} && cp -a $root/. %{buildroot}/
		%post
		$(maintainer_script group)
		$(maintainer_script renew)
		%preun
		[ "\$1" -ne 0 ] || $(maintainer_script forget)
		%files
		%defattr(-,root,root,-)
		$(files)
	TEXT
}

stage "$root/usr" site-functions "$libraries" share/weigh/python
settle "$root"
spec >"$scratch/weigh.spec"
# What a distribution would do behind our back is left out: stripping, compiling of Python, links to build ids.
rpmbuild --quiet -bb --target "$machine-linux" --buildroot "$scratch/built" \
	--define "_topdir $scratch/rpm" --define "_rpmdir $scratch/rpm" --define "_rpmfilename weigh.rpm" \
	--define "_build_id_links none" --define "debug_package %{nil}" --define "__os_install_post %{nil}" \
	--define "__requires_exclude ^/usr/bin/pkg-config\$" --define "_binary_payload w$level.xzdio" --define "_buildhost weigh.invalid" --define "_build_name_fmt weigh.rpm" \
	--define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
	"$scratch/weigh.spec" >"$scratch/rpm.log" 2>&1 || {
	cat "$scratch/rpm.log" >&2
	fail "rpmbuild failed"
}
mv "$scratch/rpm/weigh.rpm" "$file"
echo "$file"
