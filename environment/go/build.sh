# Builds the Go package in the current folder into the program main. A package whose functions answer requests as net/http has
# them, and that is no program yet, becomes one: the function adaptor writes the files of what calls them.
set -e
if ! command -v go > /dev/null; then
	echo "the server has no Go where builds can see it (/usr/local/go/bin, /usr/local/bin, /usr/bin); install it there, like: apt-get install golang-go" >&2
	exit 1
fi
work=${SRC_PKG%/*}
export CGO_ENABLED=0 GOENV=off GOWORK=off GOTOOLCHAIN=local GOTELEMETRY=off
export GOCACHE="${GOCACHE:-$work/.go-build}" GOPATH="$work/.go" GOFLAGS="-trimpath -buildvcs=false -modcacherw"
if [ -d vendor ]; then GOFLAGS="$GOFLAGS -mod=vendor"; else GOFLAGS="$GOFLAGS -mod=mod"; fi
version=$(go env GOVERSION | sed -E 's/^go([0-9.]*).*/\1/')
if ! [ -f go.mod ]; then
	printf 'module function\n\ngo %s\n' "$(echo "$version" | cut -d. -f1,2)" > go.mod
fi
if ! why=$(go list -m 2>&1); then
	needs=$(echo "$why" | sed -nE 's/.*go\.mod requires go >= ([^ ]+).*/\1/p')
	[ -z "$needs" ] || why="go.mod needs Go $needs, and this server builds with Go $version: lower the version in go.mod, or have a newer Go installed"
	echo "$why" >&2
	exit 1
fi
sources=$(ls -- *.go 2> /dev/null | grep -v '_test\.go$' || true)
if [ -z "$sources" ]; then
	echo "the package has no Go files in its folder" >&2
	exit 1
fi
# Names of files with spaces are not Go's.
if ! grep -qE '^func main\(\)' $sources; then
	functions=$(sed -nE 's/^func ([A-Z][A-Za-z0-9_]*)\( *[A-Za-z0-9_]+ +http\.ResponseWriter *, *[A-Za-z0-9_]+ +\*http\.Request *\).*/\1/p' $sources)
	if [ -z "$functions" ]; then
		format=$(go env GOROOT)/bin/gofmt
		! [ -x "$format" ] || "$format" -l $sources > /dev/null # which says where it is not Go
		echo "the package has neither a program (func main()) nor a function like func Handler(w http.ResponseWriter, r *http.Request)" >&2
		exit 1
	fi
	if ! grep -qE '^package main([[:space:]]|$)' $sources; then
		echo "the functions must be in package main" >&2
		exit 1
	fi
	mkdir -p landfall_adaptor
	(cd landfall_adaptor && adaptor)
	{
		printf 'package main\n\nimport (\n\t"net/http"\n\t"os"\n\n\tadaptor "%s/landfall_adaptor"\n)\n\n' "$(go list -m)"
		printf 'func main() {\n\tos.Exit(adaptor.Serve(map[string]http.HandlerFunc{\n'
		for function in $functions; do printf '\t\t"%s": %s,\n' "$function" "$function"; done
		printf '\t}))\n}\n'
	} > landfall_main.go
fi
mkdir -p "$DEPLOY_PKG"
go build -o "$DEPLOY_PKG/main" .
