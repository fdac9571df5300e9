#!/bin/bash
# Puts the output of real runs into README.md and the pages of docs/.
#
# Between `<!-- example: NAME [LINES] -->` and `<!-- end of example -->` stands what the command of that NAME below
# prints, behind the command itself; of more than LINES the first ones. A NAME is run once, for all pages. All run in
# order in one folder, with tests/workloads and examples/train.py; those called `user-…` as nobody, if this is root.
#
# usage: readme-example.sh WEIGH [PAGE...]    without pages: all that have such marks
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
weigh=$(realpath "$1")
shift
pages=("$@")
((${#pages[@]})) || mapfile -t pages < <(grep -lrE '^<!-- example: ' README.md docs)
most_lines=24

# In the order in which they are run: some read what one before them has written.
examples=$(
	cat <<-'END'
		run       weigh run -- make -s -j2
		train     weigh run -o train.weigh -- python3 train.py
		keys      weigh show --json train.weigh | jq .metrics.memory_peak_bytes
		report    weigh report train.weigh
		io        weigh io --rows 4 -- python3 train.py
		numbers   weigh io -q --json - -- python3 train.py | jq -c '.files[] | select(.name | endswith("table.csv")) | [.read_calls, .read_bytes, .numbers.opens_total]'
		calls     weigh calls --rows 3 -- dd if=/dev/zero of=out bs=64k count=200 conv=fsync
		slowest   weigh calls -q --per-call calls.parquet -- dd if=/dev/zero of=out bs=64k count=200 conv=fsync
		explain   weigh explain calls.parquet
		limit     weigh run -q --limit memory_peak_bytes=50MiB -- python3 -c 'x = bytearray(200 << 20)'
		killed    weigh run -- sh -c 'kill -KILL $$'
		missing   weigh run -q -- ./no-such-program
		trace     weigh trace -e sched:sched_process_exec -- sh -c "ls >/dev/null; date >/dev/null"
		export    weigh run -q --io -o io.weigh -- python3 train.py; weigh export --format darshan-parser io.weigh | grep POSIX_BYTES | head -4
		doctor    weigh doctor
		user-run  weigh run -- python3 train.py
		user-io   weigh io --rows 3 -- python3 train.py
		user-doctor  weigh doctor
	END
)

# What tells of this machine alone stays out: its folders, and a shell's way to Python.
prepare() {
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	chmod 755 "$scratch"
	mkdir "$scratch"/{home,bin,work,user,outputs}
	install -m 755 "$weigh" "$scratch/bin/weigh"
	python=$(realpath /usr/bin/python3)
	ln -s "$python" "$scratch/bin/python3"
	cp -r tests/workloads/{Makefile,alone,*.c,*.h} libweigh/{src,preload}/*.h examples/train.py "$scratch/work"
	cp examples/train.py "$scratch/user"
	(cd "$scratch/work" && python3 train.py prepare)
	(cd "$scratch/user" && python3 train.py prepare)
	((EUID)) || chown -R 65534:65534 "$scratch/user"
}

# run NAME COMMAND: what it prints, as a reader would see it.
run() {
	local folder=work home=home user=()
	if [[ $1 == user-* ]]; then
		folder=user home=user
		((EUID)) || user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	fi
	(
		cd "$scratch/$folder"
		unset XDG_STATE_HOME
		export HOME=$scratch/$home PATH="$scratch/bin:$PATH" NO_COLOR=1 COLUMNS=80 LC_ALL=C.UTF-8
		status=0
		"${user[@]}" bash -c "$2" 2>&1 || status=$?
		((status == 0)) || echo "(status $status)"
	) 2>/dev/null | sed "s|$scratch/$folder/.local|~/.local|g; s|$scratch/$folder/||g; s|$scratch/$home|~|g; s|$scratch/bin/||g
		s|$python|python3|g; s/[[:space:]]*\$//; /^[0-9]*+[0-9]* records/d; /bytes .*copied/d"
}

run_all() {
	local name command wanted
	wanted=$(sed -nE 's/^<!-- example: ([a-z-]+)( [0-9]+)? -->$/\1/p' "${pages[@]}")
	while read -r name command; do
		# What writes a file for another is run for that, too.
		grep -qxE "$name" <<<"$wanted" || [[ $name == train || $name == slowest ]] || continue
		{
			echo "\$ $command"
			run "$name" "$command"
		} >"$scratch/outputs/$name"
	done <<<"$examples"
}

put() {
	local page=$1 line skip= output
	while IFS= read -r line || [[ -n $line ]]; do
		[[ $line != '<!-- end of example -->' ]] || skip=
		[[ -n $skip ]] || printf '%s\n' "$line"
		if [[ $line =~ ^'<!-- example: '([a-z-]+)' '?([0-9]*)' -->'$ ]]; then
			output=$scratch/outputs/${BASH_REMATCH[1]}
			[[ -s $output ]] || { echo "readme-example.sh: $page: no example is called ${BASH_REMATCH[1]}" >&2; return 1; }
			printf '```\n%s\n```\n' "$(cut_off "$output" "${BASH_REMATCH[2]:-$most_lines}")"
			skip=1
		fi
	done <"$page" >"$scratch/page"
	cat "$scratch/page" >"$page"
}

# cut_off FILE LINES
cut_off() {
	head -n "$2" "$1"
	(($(wc -l <"$1") <= $2)) || echo …
}

prepare
run_all
for page in "${pages[@]}"; do put "$page"; done
