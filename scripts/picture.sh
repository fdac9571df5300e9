#!/bin/bash
# Makes docs/images/report.png: the report of a real run (demo.sh) as Chromium draws it.
#
# usage: picture.sh WEIGH
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
scripts/demo.sh "$1" "$scratch/recording" >/dev/null 2>&1
mkdir -p docs/images
"${CHROMIUM:-chromium}" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
	--disable-background-networking --disable-component-update --disable-sync \
	--user-data-dir="$scratch/browser" --hide-scrollbars --window-size=1280,1500 \
	--virtual-time-budget=3000 --screenshot="$PWD/docs/images/report.png" \
	"file://$scratch/recording/report.html" >/dev/null 2>&1
ls -l docs/images/report.png
