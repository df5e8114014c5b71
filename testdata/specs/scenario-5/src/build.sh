#!/bin/sh
set -eu
cp -r "${SRC_PKG}" "${DEPLOY_PKG}"
