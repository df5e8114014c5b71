#!/bin/sh
# need.sh COMMAND=PACKAGE... makes sure that the commands are there: what is missing is installed from Debian's packages by
# root; anybody else is told the one command to type.
set -eu

missing=
for pair; do
	command -v "${pair%%=*}" >/dev/null || missing="$missing ${pair#*=}"
done
[ -n "$missing" ] || exit 0

install="apt-get install --yes --no-install-recommends$missing"
if [ "$(id -u)" != 0 ]; then
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
