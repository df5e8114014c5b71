# Installs what requirements.txt says into the package.
set -e
if [ -f requirements.txt ]; then
	if ! command -v pip3 > /dev/null; then
		echo "the server has no pip3 where builds can see it (/usr/local/bin, /usr/bin); install it there, like: apt-get install python3-pip" >&2
		exit 1
	fi
	pip3 install --disable-pip-version-check -r requirements.txt -t "$SRC_PKG"
fi
cp -r "$SRC_PKG" "$DEPLOY_PKG"
