# Read by demo.sh when SCALE=1: one installation with a process or two for each role, on a PostgreSQL server, an S3 server and a NATS
# server of its own. S3SERVER is the program of the S3 server (versitygw), NATS that of the NATS server.

# free NAME sets NAME to a port that nothing listens on, and that it gave to nobody before.
last=8180
free() {
	last=$((last + 1))
	while answers "$last"; do
		last=$((last + 1))
		[ "$last" -lt 8400 ] || fail "no free port from 8181 to 8399"
	done
	eval "$1=$last"
}

# reached PORT WHAT waits until something listens there.
reached() {
	tries=0
	until answers "$1"; do
		tries=$((tries + 1))
		[ "$tries" -lt 150 ] || fail "$2 did not start within 30 seconds"
		sleep 0.2
	done
}

# background NAME COMMAND... runs in the background until the demo ends. It says what it has to say in the log.
background() {
	name=$1
	shift
	"$@" >>"$log" 2>&1 </dev/null &
	processes="$processes $!"
	eval "$name=$!"
}

start_database() {
	postgres=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
	mkdir "$work/postgres"
	as=
	if [ "$(id -u)" = 0 ]; then # it refuses to be root
		chmod 755 "$work"
		chown postgres "$work/postgres"
		as='runuser -u postgres --'
	fi
	(cd "$work/postgres" && $as "$postgres/initdb" --auth=trust --username=landfall --no-sync --pgdata=data) >>"$log" 2>&1 ||
		fail "the database could not be made"
	free database_port
	cd "$work/postgres"
	background database $as "$postgres/postgres" -D data -p "$database_port" -c listen_addresses=127.0.0.1 -c unix_socket_directories=
	cd "$work"
	reached "$database_port" PostgreSQL
	export LANDFALL_DATABASE="postgres://landfall@127.0.0.1:$database_port/postgres"
}

start_objects() {
	free objects_port
	mkdir "$work/objects"
	LANDFALL_S3_ACCESS_KEY=demo LANDFALL_S3_SECRET_KEY=$(secret)
	export LANDFALL_S3_ACCESS_KEY LANDFALL_S3_SECRET_KEY
	background objects "$S3SERVER" --access demo --secret "$LANDFALL_S3_SECRET_KEY" --port "127.0.0.1:$objects_port" --quiet posix "$work/objects"
	reached "$objects_port" "the S3 server"
	export LANDFALL_S3_ENDPOINT="http://127.0.0.1:$objects_port" LANDFALL_S3_STYLE=path
}

start_messages() {
	free messages_port
	background messages "$NATS" --addr 127.0.0.1 --port "$messages_port" --jetstream --store_dir "$work/messages"
	reached "$messages_port" "the NATS server"
}

# process NAME ROLES PORT [VARIABLE=VALUE]... starts a process of the installation.
process() {
	name=$1 told="$told $3:$2"
	basics="LANDFALL_ROLE=$2 LANDFALL_LISTEN=127.0.0.1:$3"
	shift 3
	background "$name" env $basics "LANDFALL_DATA=$work/$name" "$@" "$program" serve
}

start_scale() {
	start_database
	start_objects
	start_messages
	LANDFALL_ROLE_SECRET=$(secret)
	export LANDFALL_ROLE_SECRET LANDFALL_URL="$LANDFALL_SERVER"
	for name in registry router runner1 runner2 trigger worker1 worker2 gateway1 gateway2; do free "${name}_port"; done
	told=
	process api api,webhook "$port" "LANDFALL_NATS=nats://127.0.0.1:$messages_port"
	process registry registry "$registry_port"
	process runner1 runner "$runner1_port" "LANDFALL_REGISTRY=127.0.0.1:$registry_port"
	process runner2 runner "$runner2_port" "LANDFALL_REGISTRY=127.0.0.1:$registry_port"
	process router router "$router_port" "LANDFALL_RUNNERS=127.0.0.1:$runner1_port,127.0.0.1:$runner2_port"
	process trigger trigger "$trigger_port" "LANDFALL_ROUTER=127.0.0.1:$router_port" "LANDFALL_NATS=nats://127.0.0.1:$messages_port"
	process worker1 pipeline "$worker1_port"
	process worker2 pipeline "$worker2_port"
	process gateway1 gateway "$gateway1_port" "LANDFALL_ROUTER=127.0.0.1:$router_port"
	process gateway2 gateway "$gateway2_port" "LANDFALL_ROUTER=127.0.0.1:$router_port"
	for process in $told; do
		ready "${process%%:*}"
		good "${process#*:} on port ${process%%:*}"
	done
	gateways="$gateway1_port $gateway2_port"
	callable="http://127.0.0.1:$trigger_port"
	server=$api
}
