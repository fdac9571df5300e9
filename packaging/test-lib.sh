# Tests that print a line `ok NAME` or `FAIL NAME` each; test.sh and test-bare.sh source it. What a
# test said is shown if it failed.

failures=0
said=$(mktemp)

# check NAME COMMAND...: the command ends with status 0
check() { check_status "$1" 0 "${@:2}"; }

# check_status NAME STATUS COMMAND...
check_status() {
	local name=$1 expected=$2 status=0
	shift 2
	"$@" >"$said" 2>&1 || status=$?
	if ((status == expected)); then
		echo "ok    $name"
		return
	fi
	echo "FAIL  $name: status $status instead of $expected"
	tail -n 40 "$said" | sed 's/^/      /'
	failures=1
}

# same EXPECTED FOUND, for check
same() {
	[[ $1 == "$2" ]] && return
	diff <(echo "$1") <(echo "$2")
}
