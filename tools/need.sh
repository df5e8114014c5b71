#!/bin/sh
# need.sh COMMAND=PACKAGE... makes sure that the commands are there: what is missing is installed from Debian's packages by
# root; anybody else is told the one command to type. The word go stands for Go ($GO) in the version that go.mod names, which no
# package has: whoever lacks it is told where it is.
set -eu

# lacks_go fails when Go is there in that version, or gets itself in it, and otherwise says what is there instead.
lacks_go() {
	needs=$(sed -n 's/^go //p' go.mod)
	has=$(GOTOOLCHAIN=local "$GO" env GOVERSION 2>/dev/null) || has=none
	newest=$(printf '%s\n%s\n' "go$needs" "$has" | sort -V | tail -n 1)
	[ "$has" = none ] || [ "$newest" != "$has" ] || return 1
	[ "$has" = none ] || ! "$GO" version >/dev/null 2>&1 || return 1 # it brings the version that go.mod names
	echo "missing: Go $needs or newer; this machine has $has. Install it from https://go.dev/dl/ and put its folder bin into PATH." >&2
}

GO=${GO:-go}
missing= without_go=
for pair; do
	if [ "$pair" = go ]; then
		! lacks_go || without_go=1
		continue
	fi
	command -v "${pair%%=*}" >/dev/null || missing="$missing ${pair#*=}"
done
[ -n "$missing" ] || exit "${without_go:-0}"

install="apt-get install --yes --no-install-recommends$missing"
if [ "$(id -u)" != 0 ] || [ -n "$without_go" ]; then # nothing is installed for what cannot begin
	echo "missing:$missing. Type: sudo $install" >&2
	exit 1
fi
if ! command -v apt-get >/dev/null; then
	echo "missing:$missing. Install them with the package manager of this system." >&2
	exit 1
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # one word for each package
if ! { apt-get update && $install; } >"$log" 2>&1; then
	cat "$log" >&2
	exit 1
fi
