// Skills need no code. Every package has an index.ts, and a comment will do.
