/** Flags of V8 for the code of plugins. */

const FLAGS: readonly string[] = [
  // Hooks are no slower with it, because they are not hot enough for inlining.
  '--optimize-for-size',
  // Maglev, the middle compiler, takes 560 MB for a function of 3,000 branches, for which a plugin would be killed. Without it such
  // code needs 45 MB, and small loops are as fast. Not `--no-maglev`: set this late, it makes V8 count thousands of calls before it
  // optimizes a function, and a hook an eighth slower. This filter leaves out every function.
  '--maglev-filter=-*',
];

/**
 * Sets the flags. Call it before a plugin runs, and after the modules of Node that every child needs are loaded: on the command
 * line, these flags would make V8 reject the code cache of those modules.
 */
export function setCompilerFlags(): void {
  const { setFlagsFromString } = process.getBuiltinModule('node:v8');
  for (const flag of FLAGS) setFlagsFromString(flag);
}
