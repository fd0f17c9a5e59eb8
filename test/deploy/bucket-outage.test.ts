/** The service with a bucket that is away: it starts, says why plugins wait, and its keys can be replaced. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { recordMember, requireCluster } from '../../db/cluster/cluster-record.ts';
import { issueToken } from '../../deploy/issue-token.ts';
import { parseSettings, sharedSettings } from '../../service/settings/settings.ts';
import { describeMember } from '../../service/storage/membership.ts';
import { startObjectStore } from '../object-store/object-store.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { isSoak, soakTest } from '../runner/soak.ts';
import { openStorageFixture } from '../supervisor/supervisor-fixture.ts';
import { operator } from './operator-command.ts';
import { type ServiceFixture, startApiAlone, startOnly, startServiceFixture } from './service-fixture.ts';

const REFUSED = { status: 403, body: '<Error><Code>InvalidAccessKeyId</Code></Error>' };
const CAUSE =
  /refused to read a blob: status 403, InvalidAccessKeyId\. Check the bucket, AWS_REGION and the access key\./;

const bucket = await startObjectStore(t);
const { pool, url: DATABASE_URL, dataDir: DATA_DIR, install } = await openStorageFixture(t);
const env = { ...bucket.settings, DATABASE_URL, DATA_DIR };
const code = 'middleware.systemPrompt = () => undefined;';
await install({ slug: 'witness', code, secrets: { key: 'k3y' } });
// As a service with blobs in files does.
const inFiles = { ...env, BLOBS: 'files' };
await recordMember(pool, await describeMember(pool, parseSettings(sharedSettings, inFiles)));
const moved = await operator(inFiles, 'move-blobs', bucket.settings.BLOBS);
if (moved.code !== 0) throw new Error(moved.stderr);
// As in a new pod.
for (const folder of ['blobs', 'blob-cache']) await rm(join(DATA_DIR, folder), { recursive: true, force: true });
bucket.intercept(() => REFUSED);

const readGauges = ({ env }: ServiceFixture): Promise<(string | undefined)[]> =>
  Promise.all(
    [env.API_OPS_PORT, env.SUPERVISOR_OPS_PORT].map(async (port) => {
      const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { headers: { connection: 'close' } });
      return /^bulkhead_blob_store_available (\d)$/m.exec(await answer.text())?.[1];
    }),
  );

t.test('an API starts although its bucket refuses requests', async (t) => {
  const { call } = await startApiAlone(t, env);
  t.equal((await call('GET', '/api/plugins')).status, 200);
});

soakTest(t, 'API and supervisor start, log the cause and measure it', async (t) => {
  const service = await startServiceFixture(t, env);
  const written = [...service.lines, service.stderr()].join('\n');
  for (const name of ['api', 'supervisor'])
    t.ok(
      written.split('\n').some((line) => line.includes(`"name":"${name}"`) && CAUSE.test(line)),
      `${name}: the log names the cause`,
    );
  t.same(await readGauges(service), ['0', '0']);
  t.equal((await service.call('GET', '/api/plugins')).status, 200);
  service.kill('SIGTERM');
  await service.exited;
});

t.test('keys can be replaced and tokens issued', async (t) => {
  t.match(await operator(env, 'rotate-identity-key', '--revoke-old'), { code: 0 });
  t.match(await operator(env, 'rotate-key'), { code: 0 });
  t.match(await issueToken(['ann'], () => env), /^ey/);
});

t.test('commands that compare or move blobs name the cause', async (t) => {
  for (const words of [['accept-data-dir'], ['move-blobs', 'database'], ['prune', '--dry-run']])
    t.match(await operator(env, ...words), { code: 1, stderr: CAUSE }, words.join(' '));
});

t.test('the first start of a database needs the bucket', async (t) => {
  const { url, pool } = await testDatabase(t);
  const first = { ...env, DATABASE_URL: url, DATA_DIR: await temporaryFolder(t) };
  const member = await describeMember(pool, parseSettings(sharedSettings, first));
  await t.rejects(requireCluster(pool, member), { message: CAUSE });
  if (isSoak()) t.match(await (await startOnly(first)).exited, { code: 1, stderr: CAUSE });
});
