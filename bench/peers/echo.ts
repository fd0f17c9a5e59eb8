/** The bare peer: what comes in goes out, through Node's own streams, with no jail and nothing read. */
process.stdin.on('data', (chunk) => process.stdout.write(chunk));
