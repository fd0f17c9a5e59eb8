/** A wrong tool name, however long and among however many tools, costs the supervisor little time for its suggestion. */
import { closest } from 'fastest-levenshtein';
import t from 'tap';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import type { Session } from '../../../db/sessions/sessions.ts';
import { limits } from '../../../sdk/contract/limits.ts';
import type { ToolRef } from '../../../supervisor/children/account-plugins-cache.ts';
import type { SessionServices } from '../../../supervisor/sessions/session-services.ts';
import { findTool } from '../../../supervisor/sessions/tools.ts';

/** As many plugins as an account may install, with as many tools as each may have. */
const PLUGINS = 100;
const REPEATS = 20;

const tools = new Map<string, ToolRef>();
for (let plugin = 0; plugin < PLUGINS; plugin += 1) {
  const slug = `plugin-${plugin}-${'a'.repeat(30)}`;
  for (let tool = 0; tool < limits.tools; tool += 1) {
    const name = `tool_${tool}`.padEnd(16, 'b');
    const installed = { slug, registrations: { tools: {} } } as unknown as InstalledPlugin;
    tools.set(`${slug}__${name}`, { plugin: installed, tool: name });
  }
}
const get = async () => ({ tools, plugins: [], idle: [] });
const services = { pluginsCache: { get, getNewest: get } } as unknown as SessionServices;
const session = { accountId: 'ann', hostTools: [], hasTools: false } as unknown as Session;

async function measure(work: () => unknown): Promise<number> {
  const before = process.threadCpuUsage();
  for (let repeat = 0; repeat < REPEATS; repeat += 1) await work();
  const { user, system } = process.threadCpuUsage(before);
  return user + system;
}

t.test('a wrong name costs as much as the comparison of some of its beginning with some names', async (t) => {
  const names = [...tools.keys()].slice(0, 1_000);
  const wanted = 'c'.repeat(10_000);
  const refuse = () => findTool(services, session, wanted).catch((error: Error) => error.message);
  t.equal(await refuse(), 'No tool has this name.');
  const compare = () => closest(wanted.slice(0, 64), names);
  const expected = (await measure(compare)) + (await measure(compare));
  const took = await measure(refuse);
  t.ok(took < 5 * expected, `${took / REPEATS} µs; twice the comparison takes ${expected / REPEATS} µs`);
});

t.test(
  'the nearest name is that of a tool of the plugin that the wrong one names, wherever it is in the list',
  async (t) => {
    for (const plugin of [0, PLUGINS - 1]) {
      const slug = `plugin-${plugin}-${'a'.repeat(30)}`;
      const right = `${slug}__${'tool_77'.padEnd(16, 'b')}`;
      await t.rejects(findTool(services, session, right.slice(0, -1)), {
        message: `No tool has this name. Did you mean ${right}?`,
      });
    }
  },
);
