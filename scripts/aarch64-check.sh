#!/bin/bash
# Whether the BPF programs are right for aarch64, too, as far as a compiler sees without that machine's headers:
# what they know of its registers and calls. The rest is for tests/vm/aarch64.sh. Wants the headers that a build
# of the crate weigh-collect has derived, and prints what clang says of errors.
#
# usage: aarch64-check.sh [PROFILE]    the build whose headers are taken; default: debug
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../crates/collect"
target=${CARGO_TARGET_DIR:-$PWD/../../target}
profile=${1:-debug}
newest() { find "$target/$profile/build" -path "$1" -printf '%T@ %h\n' | sort -n | tail -n 1 | cut -d' ' -f2-; }
derived=$(newest '*/weigh-collect-*/out/counters.h')
libbpf=$(newest '*/libbpf-sys-*/out/include/bpf/bpf_helpers.h')
[[ -n $derived && -n $libbpf ]] || { echo "weigh-collect has not been built in $target"; exit 1; }
clang=${CLANG:-$(command -v clang clang-19 clang-18 clang-17 clang-16 | head -n 1)}
status=0
for source in bpf/*.bpf.c; do
	"$clang" -target bpf -mcpu=v3 -D__TARGET_ARCH_arm64 -Wall -fsyntax-only -I "$derived" -I "${libbpf%/bpf}" "$source" || status=1
done
exit $status
