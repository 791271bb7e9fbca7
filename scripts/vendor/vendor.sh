#!/bin/sh
# Copies the front end's libraries, in the versions and with the hashes of package-lock.json, into the
# package, and writes the manifest of what was copied. For maintainers: users and tests need no npm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
static=$here/../../bot/cli/report/static
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/package.json" "$here/package-lock.json" "$work"
npm ci --ignore-scripts --no-audit --no-fund --prefix "$work" --silent
charts=$work/node_modules/lightweight-charts
cp "$charts/dist/lightweight-charts.standalone.production.js" "$static/lightweight-charts.js"
cp "$charts/LICENSE" "$static/lightweight-charts.LICENSE"
cd "$static"
sha256sum lightweight-charts.js lightweight-charts.LICENSE NOTICE >SHA256SUMS
