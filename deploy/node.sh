#!/bin/sh
# Runs the Node that npm installed: `sh deploy/node.sh deploy/local.ts`. The scripts of package.json use it. Node 26
# needs libatomic, which slim systems lack; if it is missing, it is fetched with apt into node_modules.
# `SANDBOX_FETCH=off` forbids that.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
case $(uname -m) in
  x86_64) architecture=x64 ;;
  aarch64) architecture=arm64 ;;
  *) architecture=$(uname -m) ;;
esac
package=$root/node_modules/node-linux-$architecture
node=$package/bin/node
# npm 9 and 10 create no link if two packages contain the same program, one for each architecture. The image
# uses the link, this script does not: a user who may not write here starts without it.
link=$root/node_modules/.bin/node

fail() {
  echo "$1" >&2
  exit 1
}

# Puts libatomic next to Node and makes this copy of Node find it in any environment.
add_libatomic() {
  # Any form that Node reads: with quotes, spaces, `export`, a comment or CRLF.
  setting=${SANDBOX_FETCH:-$(sed -nE "s/^[[:space:]]*(export[[:space:]]+)?SANDBOX_FETCH[[:space:]]*=[[:space:]]*[\"'\`]?([A-Za-z]*).*/\2/p" .env 2>/dev/null | tail -n 1)}
  remedy="Node cannot start without libatomic.so.1: install it (apt-get install libatomic1) and start again."
  [ "$setting" != off ] || fail "$remedy"
  packages=$(sh "$root/deploy/fetch-debian.sh" "$root/node_modules/.cache/debian" libatomic1 patchelf) || fail "$remedy"
  libatomic=$(echo "$packages" | sed -n 1p)
  patchelf=$(echo "$packages" | sed -n 2p)
  # A subshell, so that Node does not inherit the lock.
  (
    flock 9
    ! "$node" --version >/dev/null 2>&1 || exit 0
    mkdir -p "$package/lib"
    cp -L "$libatomic"/usr/lib/*/libatomic.so.1 "$package/lib/"
    cp "$node" "$node.new"
    "$patchelf/usr/bin/patchelf" --set-rpath '$ORIGIN/../lib' "$node.new"
    mv "$node.new" "$node"
  ) 9>"$package/lock"
}

[ -x "$node" ] || fail "node_modules has no Node for $architecture: run npm ci."
[ -e "$link" ] || ln -sf "../node-linux-$architecture/bin/node" "$link" 2>/dev/null || true
case $("$node" --version 2>&1 || true) in
  *libatomic.so.1*) add_libatomic ;;
esac
exec "$node" "$@"
