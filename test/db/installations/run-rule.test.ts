/** The rule that decides whether an installation may run. */
import t from 'tap';
import { describeInactive, isActive, mayRun } from '../../../db/installations/run-rule.ts';

t.test('ready and failed installations are active; a block stops them', async (t) => {
  const expected = { ready: true, failed: true, paused: false, needs_configuration: false, uninstalling: false };
  for (const [name, active] of Object.entries(expected)) {
    const status = name as keyof typeof expected;
    t.equal(isActive({ status }), active, name);
    t.equal(mayRun({ status, blockedReason: null }), active, name);
    t.equal(mayRun({ status, blockedReason: 'A test.' }), false, `${name}, blocked`);
    t.equal(describeInactive({ status, blockedReason: null }) === null, active, `${name}: reason`);
    t.equal(describeInactive({ status, blockedReason: 'A test.' }), 'A test.', `${name}, blocked: reason`);
  }
});
