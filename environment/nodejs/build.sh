# Installs what package.json says into the package.
set -e
if [ -f package.json ]; then
	if ! command -v npm > /dev/null; then
		echo "the server has no npm where builds can see it (/usr/local/bin, /usr/bin); install it there, like: apt-get install npm" >&2
		exit 1
	fi
	npm install --no-audit --no-fund --no-update-notifier
fi
cp -r "$SRC_PKG" "$DEPLOY_PKG"
