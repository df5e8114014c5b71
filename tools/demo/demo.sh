#!/bin/sh
# demo.sh PROGRAM APP: a shop goes from `git push` to its address, changes, and goes back. Each thing that is said to have
# happened is checked; the first that did not ends the demo with 1. STAY=1 keeps the server running at the end. SCALE=1 runs
# each part in a process of its own (scale.sh).
set -eu

program=$(realpath "$1")
app=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
log=$work/server.log
server= processes=
begin=$(date +%s)

# --- words

if [ -t 1 ]; then bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m'); else bold='' dim='' plain=''; fi

title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
good() { printf '  ok: %s\n' "$*"; }
indent() { awk '{ print "  " $0 }'; }

fail() {
	printf '\nThe demo failed: %s\n' "$*" >&2
	if [ -s "$log" ]; then
		printf '\nThe end of what the server said:\n' >&2
		tail -n 20 "$log" >&2
	fi
	exit 1
}

# show COMMAND... shows the command and what it prints, and keeps that in $work/out.
show() {
	printf '  %s$ %s%s\n' "$dim" "$*" "$plain"
	if ! "$@" >"$work/out" 2>&1 </dev/null; then
		indent <"$work/out"
		fail "'$*' did not succeed"
	fi
	indent <"$work/out"
}

landfall() { "$program" "$@"; }

# says TEXT: the last thing shown says so.
says() { grep -qF -- "$1" "$work/out" || fail "expected to read \"$1\""; }

# --- the server

end() {
	code=$?
	trap - EXIT INT TERM
	for process in $(printf '%s\n' $processes | sort -rn); do # the last that was started first
		kill "$process" 2>/dev/null || true
		wait "$process" 2>/dev/null || true
	done
	rm -rf "$work"
	exit "$code"
}
trap end EXIT
trap 'exit 130' INT TERM

# answers PORT: something listens there. curl ends with 7 when nothing does.
answers() {
	status=0
	curl -s -o /dev/null --max-time 2 "http://127.0.0.1:$1/" || status=$?
	[ "$status" -ne 7 ]
}

start() {
	port=8080
	while answers "$port"; do
		port=$((port + 1))
		[ "$port" -lt 8180 ] || fail "no free port from 8080 to 8179"
	done
	gateways=$port callable=http://127.0.0.1:$port
	LANDFALL_TOKEN=$(secret)
	export LANDFALL_TOKEN LANDFALL_DATA="$work/data" LANDFALL_LISTEN="127.0.0.1:$port" LANDFALL_SERVER="http://localhost:$port"
	if [ "${SCALE:-}" = 1 ]; then
		. "$here/scale.sh"
		start_scale
		return
	fi
	"$program" serve >"$log" 2>&1 </dev/null &
	server=$!
	processes=$server
	ready "$port"
}

secret() { od -An -N20 -tx1 /dev/urandom | tr -d ' \n'; }

# ready PORT waits until the server there is ready.
ready() {
	tries=0
	until curl -fs -o /dev/null --max-time 2 "http://127.0.0.1:$1/readyz"; do
		kill -0 "${processes##* }" 2>/dev/null || fail "the server ended at its start"
		tries=$((tries + 1))
		[ "$tries" -lt 150 ] || fail "the server was not ready within 30 seconds"
		sleep 0.2
	done
}

# --- looking

# served URL TEXT RELEASE: the address answers with the text, from the release, at every gateway.
served() {
	for gateway in $gateways; do
		curl -fsS --max-time 10 --connect-to "::127.0.0.1:$gateway" -D "$work/head" -o "$work/page" "$1" || fail "$1 does not answer"
		grep -qF -- "$2" "$work/page" || fail "$1 does not show \"$2\""
		grep -qi "^landfall-release: *$3" "$work/head" || fail "$1 is not served by release $3"
	done
	good "$1 shows \"$2\""
}

# called URL DATA TEXT: the function behind the address answers a POST with the text, at every gateway.
called() {
	for gateway in $gateways; do
		curl -fsS --max-time 20 --connect-to "::127.0.0.1:$gateway" -H 'Content-Type: application/json' --data "$2" -o "$work/page" "$1" ||
			fail "$1 does not answer"
		grep -qF -- "$3" "$work/page" || fail "$1 does not answer \"$3\" but $(cat "$work/page")"
	done
	good "POST $2 to $1 answers $3"
}

# await TEXT COMMAND... runs the command again and again until it says so, and shows that.
await() {
	text=$1 tries=0
	shift
	until "$@" 2>&1 </dev/null | grep -qF -- "$text"; do
		tries=$((tries + 1))
		[ "$tries" -lt 150 ] || fail "'$*' did not say \"$text\" within 30 seconds"
		sleep 0.2
	done
	show "$@"
	says "$text"
}

# push pushes main and sets release and address to what the push printed.
push() {
	printf '  %s$ git push http://localhost:%s/git/shop.git main%s\n' "$dim" "$port" "$plain"
	if ! git push "http://x:$LANDFALL_TOKEN@localhost:$port/git/shop.git" main >"$work/out" 2>&1 </dev/null; then
		indent <"$work/out"
		fail "the push was refused"
	fi
	tr '\r' '\n' <"$work/out" | sed -n 's/[[:space:]]*$//; /^remote:/p' | indent
	address=$(grep -Eo "http://shop(--|\.)[a-z][a-z2-7]{7}\.localhost:$port/?" "$work/out" | tail -n 1)
	[ -n "$address" ] || fail "the push did not print the release's address"
	address=${address%/}/
	release=$(printf '%s\n' "$address" | sed -E 's#^http://shop(--|\.)([a-z2-7]+)\..*#\2#')
}

commit() {
	git add --all
	git commit --quiet --message "$1"
}

# --- nothing of this person's settings plays a part

for name in $(env | sed -n 's/^\(LANDFALL_[A-Z0-9_]*\)=.*/\1/p; s/^\(GIT_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
export GIT_AUTHOR_NAME=Demo GIT_AUTHOR_EMAIL=demo@example.com GIT_COMMITTER_NAME=Demo GIT_COMMITTER_EMAIL=demo@example.com
export no_proxy='*' NO_PROXY='*'

# --- the story

files=$(cd "$app" && find site css js images -type f | wc -l | tr -d ' ')

title "Landfall starts"
start
good "ready at $LANDFALL_SERVER/"

title "A shop is created from a repository and pushed: $files static files, three functions"
show landfall app create shop
cp -R "$app" "$work/shop"
cd "$work/shop"
git init --quiet --initial-branch main
commit "Open the shop"
push
first=$release first_address=$address
live=http://shop.localhost:$port/
served "$first_address" "Autumn collection" "$first"
served "$live" "Autumn collection" "$first"
called "${live}api/cart" '{"heron-mug": 1}' '"delivery": 490'
show landfall run list --app shop
show landfall status

title "Two files change"
sed 's/Autumn collection/Winter collection/' "$app/site/index.html" >site/index.html
sed 's/--season:#c8692b/--season:#4f86b5/' "$app/images/hero.svg" >images/hero.svg
[ "$(git diff --name-only | wc -l | tr -d ' ')" = 2 ] || fail "the demo wanted to change two files of the sample"
commit "Winter comes"
push
second=$release second_address=$address
grep -Eq "(^|[^0-9,.])2 of $files files uploaded" "$work/out" || fail "expected to read \"2 of $files files uploaded\""
good "2 of $files files uploaded"
show landfall release diff shop "$first" "$second"
says /static/images
served "$first_address" "Autumn collection" "$first"
served "$second_address" "Winter collection" "$second"
served "$live" "Winter collection" "$second"

title "A function changes"
sed 's/^DELIVERY = 490/DELIVERY = 290/' "$app/functions/shop/cart.py" >functions/shop/cart.py
commit "Delivery is cheaper"
push
third_address=$address
called "${live}api/cart" '{"heron-mug": 1}' '"delivery": 290'
called "${third_address}api/cart" '{"heron-mug": 1}' '"delivery": 290'
called "${second_address}api/cart" '{"heron-mug": 1}' '"delivery": 490'

title "A name for a version, a schedule and a queue"
show landfall function alias create cart steady 1
show landfall --server "$callable" function invoke cart:steady --data '{"heron-mug": 1}'
says '"delivery": 490'
show landfall --server "$callable" function invoke cart:live --data '{"heron-mug": 1}'
says '"delivery": 290'
mkdir functions/events
cat >functions/events/events.py <<'END'
def main(event):
    return {"confirmed": event.get("data"), "because_of": event["type"]}
END
cat >specs/events.yaml <<'END'
apiVersion: fission.io/v1
kind: Function
metadata: {name: events}
spec:
  environment: {name: python}
  package: {packageref: {name: events-pkg}, functionName: events.main}
---
apiVersion: fission.io/v1
kind: Package
metadata: {name: events-pkg}
spec: {environment: {name: python}, deployment: {url: "archive://events"}}
---
kind: ArchiveUploadSpec
name: events
include: [functions/events/*.py]
---
apiVersion: fission.io/v1
kind: TimeTrigger
metadata: {name: tick}
spec: {functionref: {name: events}, cron: "@every 1s"}
---
apiVersion: fission.io/v1
kind: MessageQueueTrigger
metadata: {name: orders}
spec: {functionref: {name: events}, topic: orders, respTopic: confirmed}
END
commit "Orders are confirmed"
push
show landfall queue publish shop orders --data '{"order": 7}'
await "succeeded" landfall trigger list shop
await '"because_of"' landfall queue read shop confirmed

title "Back to autumn"
show landfall release rollback shop "$first"
served "$live" "Autumn collection" "$first"
served "$second_address" "Winter collection" "$second"
called "${live}api/cart" '{"heron-mug": 1}' '"delivery": 490'
show landfall app history shop
says "$first"
says "$second"
grep -F "$first" "$work/out" | grep -qF "live" || fail "the history does not say that $first is live"

title "All of this took $(($(date +%s) - begin)) seconds."
if [ "${STAY:-}" = 1 ]; then
	printf '\n  Open     %s\n  Pages    %s\n  Token    %s\n  Ctrl-C ends it.\n' "$live" "$LANDFALL_SERVER/" "$LANDFALL_TOKEN"
	trap 'exit 0' INT TERM
	wait "$server"
fi
