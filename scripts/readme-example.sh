#!/bin/bash
# Puts the output of a real `make run` job into README.md, between the marks.
#
# usage: readme-example.sh WEIGH
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
recording=$(mktemp -d)/demo
trap 'rm -rf "$(dirname "$recording")"' EXIT
# The place is one that a reader would see.
output=$(scripts/demo.sh "$1" "$recording" 2>&1 | sed "s|$recording|~/.local/state/weigh/demo|")
awk -v output="$output" '
	/^<!-- example:/ { print; print ""; print "```"; print output; print "```"; print ""; skip = 1 }
	/^<!-- end of example/ { skip = 0 }
	!skip' README.md >"$recording.md"
cat "$recording.md" >README.md
