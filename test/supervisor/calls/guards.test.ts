/** Which changes of an account have what waits judged again. */
import t from 'tap';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import { digestGuards, hasNewGuard } from '../../../supervisor/calls/guards.ts';
import { indexAccountPlugins } from '../../../supervisor/children/account-plugins-cache.ts';

const HOOK = 'middleware.inboundMessage';
const plugin = (installationId: string, more: Partial<InstalledPlugin> = {}) =>
  ({
    installationId,
    slug: installationId,
    status: 'ready',
    required: true,
    blockedReason: null,
    updatedAt: '2026-01-01T00:00:00.000001Z',
    registrations: { hooks: [HOOK], tools: {} },
    registrationBytes: 1,
    memoryBytes: 1,
    ...more,
  }) as unknown as InstalledPlugin;
const digest = (...plugins: InstalledPlugin[]) => digestGuards(indexAccountPlugins(plugins), HOOK);

t.test('what was judged is judged again once a required plugin came or changed', async (t) => {
  const before = digest(plugin('a'), plugin('free', { required: false }));
  t.notOk(hasNewGuard(before, digest(plugin('a'))), 'other plugins do not count');
  const two = digest(plugin('a'), plugin('b'));
  t.notOk(hasNewGuard(two, digest(plugin('b'))), 'nor does one that is gone');
  t.notOk(hasNewGuard(two, digest(plugin('b'), plugin('a'))), 'nor the order');
  const later = { updatedAt: '2026-01-01T00:00:00.000002Z' };
  for (const [name, now] of Object.entries({
    installed: digest(plugin('a'), plugin('b')),
    changed: digest(plugin('a', later)),
    required: digest(plugin('a'), plugin('free', later)),
    blocked: digest(plugin('a', { ...later, blockedReason: 'x' })),
  }))
    t.ok(hasNewGuard(before, now), name);
});

t.test('without a required plugin nothing is judged again', async (t) => {
  for (const now of [digest(), digest(plugin('a', { required: false })), digest(plugin('a', { status: 'paused' }))])
    for (const before of [null, '', digest(plugin('a'))]) t.notOk(hasNewGuard(before, now));
  t.ok(hasNewGuard(null, digest(plugin('a'))), 'what an earlier release judged is judged by each required plugin');
});
