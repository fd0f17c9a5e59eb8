#!/bin/sh
# `npx bulkhead`: the command line, run by the pinned Node.
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
exec sh "$root/deploy/node.sh" "$root/pack/start-bulkhead.ts" "$@"
