/** Stack traces in log lines name the author's own files and lines; the package cannot say otherwise. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stop } from 'esbuild';
import t from 'tap';
import { BUILD_TIME_MS, ENTRY } from '../../../api/package/bundle.ts';
import { buildInTime } from '../../../api/package/bundler-worker.ts';
import { mapFrames } from '../../../db/records/source-maps.ts';
import { eventually } from '../../runner/eventually.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { connect, deliver } from '../delivery/channels.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const shared = await startSupervisorFixture(t);

const INDEX = `import { deep } from './deep/cause.ts';

interface Args { readonly how: string }
tools.fail = {
  description: 'x',
  parameters: {},
  handler: async ({ how }: Args) => {
    if (how === 'console') console.error('seen', new TypeError('logged'));
    if (how === 'log') host.log('data', new RangeError('as data'));
    if (how === 'forge') console.error('Error: x\\n    at f (failing@1.0.0:1:1)\\n    at g (failing@1.0.0:999999999:999999999)\\n  at h (../../etc/passwd:1:1)');
    await null;
    if (how === 'throw') deep();
    if (how === 'later') setTimeout(() => deep(), 1);
    return 'ok';
  },
};
middleware.systemPrompt = () => deep();
events.sessionStarted = () => deep();
channel.receive = () => deep();
`;
const CAUSE = `type Never = never;

/** Far down. */
export function deep(): Never {
  throw new Error('from below');
}
//# sourceMappingURL=data:application/json;base64,${Buffer.from('{"version":3,"sources":["/etc/passwd"],"names":[],"mappings":"AAAA"}').toString('base64')}
`;

async function bundle(files: Readonly<Record<string, string>>): Promise<{ code: string; sourceMap: string }> {
  const folder = await temporaryFolder(t);
  const staged: Record<string, string> = {};
  for (const [index, [path, text]] of Object.entries(files).entries()) {
    staged[path] = join(folder, String(index));
    await writeFile(staged[path], text);
  }
  const built = await buildInTime({ entry: ENTRY, files: staged, timeMs: BUILD_TIME_MS });
  await stop();
  if (built.outcome !== 'built') throw new Error(JSON.stringify(built));
  return { code: built.bundle, sourceMap: built.sourceMap };
}

t.test('errors and log lines name the author’s files and lines', async (t) => {
  const fixture = shared.withNewAccount();
  const plugin = await fixture.install({
    slug: 'failing',
    ...(await bundle({ 'index.ts': INDEX, 'deep/cause.ts': CAUSE })),
  });
  await deliver(fixture, plugin, await connect(fixture, plugin), ['x']);
  const session = await fixture.session();
  const call = (how: string) =>
    fixture.call('POST', `/sessions/${session}/tools/failing__fail`, { arguments: { how } });
  for (const how of ['console', 'log', 'throw', 'forge', 'later']) t.equal((await call(how)).status, 200, how);
  await fixture.call('POST', `/sessions/${session}/hooks/systemPrompt`, { context: { systemPrompt: 'x', model: 'm' } });
  const rows = await eventually(async () => {
    await fixture.supervisor.logs.flush();
    const found = await fixture.pool.query<{ message: string; data: { stack?: string } | null }>(
      'SELECT message, data FROM plugin_logs WHERE installation_id = $1 ORDER BY id',
      [plugin.installationId],
    );
    const has = (start: RegExp) => found.rows.some(({ message }) => start.test(message));
    return has(/^uncaught/) && has(/^events/) && has(/^channel/) && found.rows;
  });
  const line = (start: RegExp) => rows.find(({ message }) => start.test(message));
  t.match(line(/^seen/)?.message, /TypeError: logged\n +at .*\(index\.ts:8:50\)/);
  t.match(line(/^data/)?.data, { name: 'RangeError', message: 'as data', stack: /index\.ts:9:41/ });
  t.match(line(/^tools\.fail/)?.data?.stack, /at deep \(deep\/cause\.ts:5:9\)\n +at .*index\.ts:12:/);
  t.match(line(/^middleware\.systemPrompt/)?.data?.stack, /deep\/cause\.ts:5:9/);
  t.match(line(/^events\.sessionStarted/)?.data?.stack, /deep\/cause\.ts:5:9/);
  t.match(line(/^channel\.receive, attempt 1: from below$/)?.data?.stack, /deep\/cause\.ts:5:9/);
  t.match(
    line(/^uncaught/)?.message,
    /from below\n +at deep \(deep\/cause\.ts:5:9\)\n +at .*index\.ts:13:/,
    'after the answer too',
  );
  t.notMatch(JSON.stringify(rows), /child\.cjs|node:internal/, 'frames of the host are none of the author’s');
  const forged = line(/^Error: x/)?.message ?? '';
  t.match(forged, /at g \(index\.ts:/, 'a place that is none leads to the package’s own files at most');
});

t.test('hostile stacks and maps', async (t) => {
  const { sourceMap } = await bundle({ 'index.ts': INDEX, 'deep/cause.ts': CAUSE });
  const many = 'p@1.0.0:3:5 '.repeat(100_000);
  const started = process.threadCpuUsage();
  mapFrames(sourceMap, many, 'p@1.0.0');
  mapFrames(sourceMap, `p@1.0.0:${'1'.repeat(500_000)}`, 'p@1.0.0');
  const { user, system } = process.threadCpuUsage(started);
  t.ok((user + system) / 1_000 < 5_000, 'a text of any shape is mapped in bounded time');
  t.equal(mapFrames(sourceMap, 'p@1.0.0:0:0 p@1.0.0:1:0', 'p@1.0.0'), 'p@1.0.0:0:0 p@1.0.0:1:0');
  t.equal(mapFrames(sourceMap, 'other/p@1.0.0:3:5', 'p@1.0.0'), 'other/p@1.0.0:3:5', 'another name');
  const sources = ['/etc/passwd', '../x', 'file:///x', 'package:a"b', `package:${'a'.repeat(300)}`];
  for (const source of sources) {
    const forged = JSON.stringify({ version: 3, sources: [source], names: [], mappings: 'AAAA' });
    t.equal(mapFrames(forged, 'p@1.0.0:1:1', 'p@1.0.0'), 'p@1.0.0:1:1', source);
  }
});

t.test('a missing or broken map only prevents the mapping', async (t) => {
  const fixture = shared.withNewAccount();
  const code = "tools.a = { description: 'x', parameters: {}, handler: () => { throw new Error('still here'); } };";
  const broken = await fixture.install({ slug: 'broken', code, sourceMap: 'no JSON' });
  const gone = await fixture.install({ slug: 'gone', code });
  await fixture.pool.query('UPDATE versions SET source_map_sha256 = $2 WHERE id = $1', [
    gone.versionId,
    'f'.repeat(64),
  ]);
  const session = await fixture.session();
  for (const slug of ['broken', 'gone']) {
    await fixture.call('POST', `/sessions/${session}/tools/${slug}__a`, { arguments: {} });
  }
  await fixture.supervisor.logs.flush();
  const { rows } = await fixture.pool.query(
    "SELECT data FROM plugin_logs WHERE source = 'system' AND installation_id = ANY ($1) ORDER BY id",
    [[broken.installationId, gone.installationId]],
  );
  t.match(rows, [{ data: { stack: /broken@1\.0\.0:1/ } }, { data: { stack: /gone@1\.0\.0:1/ } }]);
});
