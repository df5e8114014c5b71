# Builds the Go package in the current folder into the program main. A package whose functions answer requests as net/http has
# them becomes one that calls them: the function adaptor writes the files of what does so, and adapt those of what reads the sources.
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
# What reads the sources is a program, too, of a module of its own.
reader="$work/.landfall-go"
rm -rf "$reader"
mkdir -p "$reader/environment/go/adapt" "$reader/environment/go/source"
(
	cd "$reader"
	adapt
	printf 'module landfall.dev/landfall\n\ngo %s\n' "$(echo "$version" | cut -d. -f1,2)" > go.mod
	GOFLAGS=-trimpath go build -ldflags='-s -w' -o adapt ./environment/go/adapt
)
"$reader/adapt" "$(go list -m)/landfall_adaptor"
if [ -f landfall_main.go ]; then
	mkdir -p landfall_adaptor
	(cd landfall_adaptor && adaptor)
fi
mkdir -p "$DEPLOY_PKG"
go build -o "$DEPLOY_PKG/main" .
