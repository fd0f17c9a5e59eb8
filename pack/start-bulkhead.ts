#!/usr/bin/env node
/**
 * `bulkhead`: starts the command line, or says which Node it needs. In the repository: `npm run -s bulkhead`. It imports nothing
 * before the check, because an old Node cannot read the rest.
 */

/** `engines` of sdk/package.json. */
const NODE_MIN = [22, 12] as const;

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1])) {
  // Keeps compiled modules for the next start. What is imported before is not kept.
  process.getBuiltinModule('node:module').enableCompileCache();
  import('./bulkhead.ts');
} else {
  const found = `this is Node ${process.versions.node} (${process.execPath})`;
  console.error(
    `bulkhead needs Node ${NODE_MIN.join('.')} or newer, and ${found}. Install a newer one from https://nodejs.org.`,
  );
  process.exitCode = 1;
}
