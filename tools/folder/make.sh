#!/bin/sh
# make.sh PROGRAM FILE.tar.gz: a data folder as PROGRAM writes it, with what its server answered, once with SQLite and once with
# PostgreSQL. It is run once for a commit and the archive is committed to testdata/folders; TestEarlierFolders unpacks every archive
# there and wants the same answers of the program of today. make folder does all of this for a commit.
#
# In the archive, for each ENGINE (sqlite, postgres):
#   ENGINE/data          the data folder, of a server that was stopped
#   ENGINE/database.sql  for postgres: its database
#   ENGINE/answers       what addresses answered: HOST PATH STATUS BODY, with tabs between
#   ENGINE/*.json        what the REST API answered; localhost stands there without its port
set -eu

program=$(realpath "$1")
archive=$(realpath -m "$2")
work=$(mktemp -d)
server= database=

fail() {
	printf '%s\n' "$*" >&2
	[ ! -s "$work/log" ] || tail -n 20 "$work/log" >&2
	exit 1
}

finish() {
	code=$?
	trap - EXIT INT TERM
	for process in $server $database; do
		kill "$process" 2>/dev/null || true
		wait "$process" 2>/dev/null || true
	done
	rm -rf "$work"
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

for name in $(env | sed -n 's/^\(LANDFALL_[A-Z0-9_]*\)=.*/\1/p; s/^\(GIT_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 no_proxy='*' NO_PROXY='*'
export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.com GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.com

free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# reached URL waits until something answers there.
reached() {
	tries=0
	until curl -fs -o /dev/null --max-time 2 "$1"; do
		kill -0 "$server" 2>/dev/null || fail "the server ended at its start"
		tries=$((tries + 1))
		[ "$tries" -lt 300 ] || fail "the server was not ready within a minute"
		sleep 0.2
	done
}

start_database() {
	postgres=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
	mkdir "$work/cluster"
	as=
	if [ "$(id -u)" = 0 ]; then # it refuses to be root
		chmod 755 "$work"
		chown postgres "$work/cluster"
		as='runuser -u postgres --'
	fi
	cd "$work/cluster"
	$as "$postgres/initdb" --auth=trust --username=landfall --no-sync --pgdata=data >"$work/log" 2>&1 || fail "no database"
	database_port=$(free)
	$as "$postgres/postgres" -D data -p "$database_port" -c listen_addresses=127.0.0.1 -c unix_socket_directories= >>"$work/log" 2>&1 &
	database=$!
	address="postgres://landfall@127.0.0.1:$database_port/postgres"
	until "$postgres/pg_isready" -q -d "$address"; do sleep 0.2; done
}

landfall() { "$program" "$@" >>"$work/log" 2>&1 </dev/null || fail "landfall $* did not succeed"; }

# round N [BRANCH] changes what is served, and pushes it.
round() {
	printf 'page %s\n' "$1" >site/index.html
	printf 'console.log("round %s")\n' "$1" >"site/app.js"
	printf 'import os\n\n\ndef main(event):\n    return "greeting %s " + os.environ["STRIPE_KEY"] + " " + os.environ["currency"]\n' "$1" >greet/greet.py
	git add --all
	git commit --quiet --message "Round $1"
	git push --quiet "http://x:$LANDFALL_TOKEN@localhost:$port/git/shop.git" "HEAD:refs/heads/${2:-main}" >>"$work/log" 2>&1 || fail "the push $1 was refused"
}

# newest prints the newest release.
newest() { curl -fs -H "Authorization: Bearer $LANDFALL_TOKEN" "$api/apps/shop/releases" | python3 -c 'import json, sys; print(json.load(sys.stdin)["items"][0]["id"])'; }

specs() {
	mkdir -p site greet specs
	cat >specs/shop.yaml <<'END'
apiVersion: landfall.dev/v1
kind: App
metadata: {name: shop}
spec:
  config: {currency: EUR}
  static:
    - {src: site, path: /}
---
apiVersion: fission.io/v1
kind: Environment
metadata: {name: python}
spec: {version: 2, runtime: {image: fission/python-env}}
---
apiVersion: fission.io/v1
kind: Function
metadata: {name: greet}
spec:
  environment: {name: python}
  secrets: [{name: STRIPE_KEY, namespace: default}]
  package: {packageref: {name: greet-pkg}, functionName: greet.main}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: greet-pkg}
spec: {environment: {name: python}, deployment: {url: "archive://greet"}}
---
kind: ArchiveUploadSpec
name: greet
include: ["greet/*.py"]
---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: greet}
spec: {functionref: {type: name, name: greet}, method: GET, relativeurl: /api/greet}
END
}

# installation makes one in the folder $out.
installation() {
	mkdir -p "$out"
	port=$(free) api=
	LANDFALL_TOKEN=$(od -An -N20 -tx1 /dev/urandom | tr -d ' \n')
	export LANDFALL_TOKEN LANDFALL_DATA="$out/data" LANDFALL_LISTEN="127.0.0.1:$port" LANDFALL_SERVER="http://localhost:$port"
	api=$LANDFALL_SERVER/api/v1
	cd "$work"
	"$program" serve >"$work/log" 2>&1 </dev/null &
	server=$!
	reached "http://127.0.0.1:$port/readyz"
	story
	record
	kill "$server"
	wait "$server" || fail "the server did not end well"
	server=
	[ "$engine" != postgres ] || "$postgres/pg_dump" --inserts --no-owner --no-privileges --no-comments "$address" |
		grep -v -e '^SET ' -e '^\\' >"$out/database.sql"
	rm -rf "$out/data/cache" "$out/data/scratch" # made again
}

# story is what a person does with an app in its first days.
story() {
	rm -rf "$work/shop"
	mkdir "$work/shop"
	cd "$work/shop"
	git init --quiet --initial-branch main
	specs
	landfall app create shop
	printf 'first-value' >"$work/value"
	landfall secret set shop STRIPE_KEY --from-file "$work/value" --no-release
	round 1
	first=$(newest)
	landfall release tag shop "$first" opening
	landfall function alias create greet steady 1
	round 2
	second=$(newest)
	round 3 feature
	feature=$(newest)
	printf 'second-value' >"$work/value"
	landfall secret set shop STRIPE_KEY --from-file "$work/value"
	third=$(newest)
	round 4
	gone=$(newest)
	round 5
	fifth=$(newest)
	landfall release rollback shop "$second"
	landfall release expire shop "$gone"
}

# record writes down what is answered. Executions and logs are no part of it: they go by time.
record() {
	for selector in "" "--$first" "--$second" "--$feature" "--$third" "--$gone" "--$fifth" --opening --branch-feature; do
		for path in / /app.js /api/greet; do
			status=$(curl -s --max-time 60 --connect-to "::127.0.0.1:$port" -o "$work/body" -w '%{http_code}' "http://shop$selector.localhost:$port$path")
			[ "$status" = 200 ] || : >"$work/body" # a page for people may change
			printf 'shop%s\t%s\t%s\t%s\n' "$selector" "$path" "$status" "$(cat "$work/body")"
		done
	done >"$out/answers"
	for name in apps/shop apps/shop/releases apps/shop/moves apps/shop/groups apps/shop/secrets functions functions/greet/aliases \
		functions/greet/versions; do
		curl -fs -H "Authorization: Bearer $LANDFALL_TOKEN" "$api/$name" | sed "s/localhost:$port/localhost/g" \
			>"$out/$(printf %s "$name" | tr / _).json" || fail "$name is not answered"
	done
	for version in greet greet:steady greet:1; do
		printf '%s\t%s\n' "$version" "$("$program" function invoke "$version" 2>>"$work/log")"
	done >"$out/calls"
}

for engine in sqlite postgres; do
	out=$work/made/$engine
	if [ "$engine" = postgres ]; then
		start_database
		export LANDFALL_DATABASE="$address"
	fi
	installation
done
mkdir -p "$(dirname "$archive")"
tar --create --sort=name --owner=0 --group=0 --numeric-owner --directory "$work/made" sqlite postgres | gzip -9n >"$archive"
