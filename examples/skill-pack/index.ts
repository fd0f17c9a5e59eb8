// Skills need no code, but every package needs an index.ts.
