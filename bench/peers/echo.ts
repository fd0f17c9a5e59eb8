/** The peer that echoes bytes through Node's streams, without a jail and without parsing. */
process.stdin.on('data', (chunk) => process.stdout.write(chunk));
