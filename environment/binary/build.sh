# Runs the package's own build.sh.
set -e
[ ! -f build.sh ] || ./build.sh
cp -r "$SRC_PKG" "$DEPLOY_PKG"
