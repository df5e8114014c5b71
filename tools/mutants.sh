#!/bin/sh
# Applies each mutation of test/history/mutations to a copy of the work tree, and expects that random histories find it.
# Arguments are the names of mutations; without one, it is all of them. HISTORIES is how many there may be for each.
set -eu
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy"
[ $# -gt 0 ] || set -- $(basename -s .patch test/history/mutations/*.patch)
caught=0 missed=0
for name; do
	patch=$PWD/test/history/mutations/$name.patch
	(cd "$copy" && git apply "$patch")
	# What does not compile would be caught by anything.
	(cd "$copy" && ${GO:-go} test -count=1 -run '^$' ./test/history >"$copy.log" 2>&1) || { cat "$copy.log"; exit 1; }
	if (cd "$copy" && ${GO:-go} test -count=1 -run '^TestHistoriesOnSQLite$' ./test/history -rapid.checks="${HISTORIES:-1000}" \
		-rapid.shrinktime=0s -rapid.nofailfile >"$copy.log" 2>&1); then
		echo "MISSED $name: $(head -n 1 "$patch")"
		missed=$((missed + 1))
	else
		after=$(grep -o '[0-9]* histories, [0-9]* operations in [0-9a-z]*' "$copy.log" || tail -n 5 "$copy.log")
		echo "caught $name after $after: $(head -n 1 "$patch")"
		caught=$((caught + 1))
	fi
	(cd "$copy" && git apply --reverse "$patch")
	rm -f "$copy.log"
done
echo "$caught caught, $missed missed"
[ $missed -eq 0 ]
