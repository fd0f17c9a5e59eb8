#!/bin/sh
# esbuild for untrusted packages: nesting that overflows its stack takes a gigabyte and prints megabytes before it dies,
# so its memory is bounded by the kernel (KiB; systems without this limit do without) and its crash report dropped.
# The limit counts data, and not addresses, of which Go reserves 1.2 GB. 80 MB are its own before it begins.
ulimit -d 440000 2>/dev/null
ulimit -c 0 2>/dev/null
exec "$BULKHEAD_ESBUILD" "$@" 2>/dev/null
