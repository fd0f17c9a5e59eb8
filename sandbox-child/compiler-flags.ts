/** Flags of V8 for the code of plugins. */

const FLAGS: readonly string[] = [
  // Hooks are no slower with it, because they are not hot enough for inlining.
  '--optimize-for-size',
  // Maglev takes 560 MB to compile a function of 3,000 branches, for which a plugin would be killed. Without it such code needs
  // 45 MB, and small loops are as fast; the p99 of a hook is 7 % higher.
  '--no-maglev',
];

/**
 * Sets the flags. Call it before a plugin runs, and after the modules of Node that every child needs are loaded: on the command
 * line, these flags would make V8 reject the code cache of those modules.
 */
export function setCompilerFlags(): void {
  const { setFlagsFromString } = process.getBuiltinModule('node:v8');
  for (const flag of FLAGS) setFlagsFromString(flag);
}
