#!/bin/bash
# Measures a real job: compiles the programs in tests/workloads, dynamic and static, on two CPUs,
# and packs what came out. Some hundred processes, a few seconds.
#
# usage: demo.sh WEIGH [OUTPUT-DIR]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
weigh=$(realpath "$1")
recording=${2:-${XDG_STATE_HOME:-$HOME/.local/state}/weigh/demo-$(date +%Y%m%dT%H%M%S)}

if ((EUID)); then
	echo "As an ordinary user weigh measures with less than it could; \`weigh doctor\` says what."
	echo "This once gives it the rights it needs: sudo setcap cap_bpf,cap_perfmon+ep $weigh"
	echo
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$PWD/tests/workloads" "$work/workloads"
cd "$work"
"$weigh" run --interval 100ms -o "$recording" --category demo -- \
	sh -c 'make --silent -j2 -C workloads BIN="$PWD/bin" && tar -cf - bin | xz -T2 -3 >workloads.tar.xz'
echo
echo "recording  $recording"
echo "report     $recording/report.html"
