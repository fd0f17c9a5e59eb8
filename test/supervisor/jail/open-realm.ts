/** The child program with wall L1 down: plugin code runs in Node's own realm with `process` and `require`. */
import { serve } from '../../../sandbox-child/program.ts';

serve({
  harden: (value) => value,
  evaluate(source, _name, globals) {
    const given = { ...globals, process, require };
    new Function(...Object.keys(given), source)(...Object.values(given));
  },
  evaluateProgram() {
    throw new Error('Node has its own globals of the web here');
  },
  replace() {
    // Tests do not reconfigure these children.
  },
  define() {},
  remove() {},
});
