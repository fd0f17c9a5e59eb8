/** The child program with wall L1 down: plugin code runs in Node's own realm with `process` and `require`. */
import { serve } from '../../../sandbox-child/program.ts';

/** The globals of the plugin. */
const given: Record<string, unknown> = { process, require };

serve({
  harden: (value) => value,
  evaluate(source, _name, globals) {
    Object.assign(given, globals);
    new Function(...Object.keys(given), source)(...Object.values(given));
  },
  evaluateProgram() {
    throw new Error('Node has its own globals of the web here');
  },
  defineGroups(groups) {
    Object.assign(given, groups);
  },
  // Counts before `evaluate` only: tests do not reconfigure these children.
  replace(globals) {
    Object.assign(given, globals);
  },
  define() {},
  remove() {},
});
