# Read by demo.sh when SCALE=1: one installation in five processes, on a PostgreSQL server and an S3 server of its own.
# S3SERVER is the program of the S3 server (versitygw).

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

# process NAME ROLES PORT starts a process of the installation.
process() {
	name=$1 roles=$2 at=$3
	LANDFALL_ROLE=$roles LANDFALL_DATA="$work/$name" LANDFALL_LISTEN="127.0.0.1:$at" background "$name" "$program" serve
	ready "$at"
	good "$roles on port $at"
}

start_scale() {
	start_database
	start_objects
	LANDFALL_ROLE_SECRET=$(secret)
	export LANDFALL_ROLE_SECRET LANDFALL_URL="$LANDFALL_SERVER"
	process api api,webhook "$port"
	for i in 1 2; do
		free worker_port
		process "worker$i" pipeline "$worker_port"
	done
	gateways=
	for i in 1 2; do
		free gateway_port
		process "gateway$i" gateway "$gateway_port"
		gateways="$gateways $gateway_port"
	done
	server=$api
}
