/** The rule by name for hooks, which console and command line use, agrees with the protocol. */
import t from 'tap';
import { hasRequiredChecks, isHook, listEndingChecks } from '../../sdk/contract/ending-checks.ts';
import { hooks, hostCalls } from '../../sdk/contract/protocol.ts';

t.ok(Object.keys(hooks).every(isHook));
t.notOk(
  ['tools', 'channel', 'events.sessionStarted', ...Object.keys(hostCalls).map((name) => `host.${name}`)].some(isHook),
);

const pending = { removed: ['middleware.inboundMessage', 'host.llm'] };
t.same(listEndingChecks(pending, { required: true }), ['middleware.inboundMessage']);
t.same(listEndingChecks(pending, { required: false }), []);
t.same(listEndingChecks(null, { required: true }), []);

const granted = { grantedCapabilities: ['host.llm', 'middleware.inboundMessage'] };
t.ok(hasRequiredChecks({ required: true, ...granted }));
t.notOk(hasRequiredChecks({ required: false, ...granted }));
t.notOk(hasRequiredChecks({ required: true, grantedCapabilities: ['channel'] }));
