/** SIGTERM: what is under way ends well, what was accepted is delivered by the next start, and the parts go in order. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, constants, existsSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { startProcess } from '../supervisor/supervisor-process.ts';
import { type Answer, type ServiceFixture, startServiceFixture } from './service-fixture.ts';

const README = `---
name: Patient
description: Takes its time
capabilities: [host.storage]
---
`;
const INDEX = `
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
middleware.inboundMessage = async (ctx) => {
  await host.storage.set('begun', true);
  await pause(2500);
  return { message: { text: ctx.message.text + ', taken' } };
};
channel.receive = async (request) => {
  await host.storage.set('got ' + request.bodyText, request.attempt);
  await pause(100);
};
tools.keys = {
  description: 'Returns the notes',
  parameters: { type: 'object' },
  handler: async () => JSON.stringify(await host.storage.list()),
};
`;
const WEBHOOKS = 20;

async function made(answer: Promise<Answer>): Promise<Answer['body']> {
  const { status, body } = await answer;
  assert.ok(status < 300, JSON.stringify(body));
  return body;
}

const keys = async (service: ServiceFixture, session: string): Promise<string[]> => {
  const call = { callId: 'k', arguments: {} };
  const { content, isError } = await made(service.session('POST', `/sessions/${session}/tools/patient__keys`, call));
  return isError ? [] : JSON.parse(content[0].text);
};

/** Opens a pipe that has no room for another byte, as of a pager that is not read. */
function openFullPipe(path: string): number {
  execFileSync('mkfifo', [path]);
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  for (const bytes of [4_096, 1])
    try {
      for (;;) writeSync(fd, Buffer.alloc(bytes, '\n'));
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'EAGAIN');
    }
  return fd;
}

t.test('a stop in the middle of everything, while the log is not read', async (t) => {
  const { url: DATABASE_URL, pool } = await testDatabase(t);
  const folder = await temporaryFolder(t);
  const log = openFullPipe(join(folder, 'log'));
  t.teardown(() => closeSync(log));
  const env = { DATA_DIR: join(folder, 'data'), DATABASE_URL };
  const service = await startServiceFixture(t, env, undefined, { stderrTo: log });
  const { id: plugin } = await made(service.call('POST', '/api/plugins', { slug: 'patient', displayName: 'Patient' }));
  const files = [
    { path: 'readme.md', contentText: README },
    { path: 'index.ts', contentText: INDEX },
  ];
  await made(service.call('POST', `/api/plugins/${plugin}/versions`, { semVer: '1.0.0', files }));
  const installation = await made(service.call('POST', '/api/installations', { slug: 'patient' }));
  const channel = await made(
    service.call('POST', `/api/installations/${installation.id}/channels`, { name: 'Counter' }),
  );
  const { id: session } = await made(service.session('POST', '/sessions', { agentId: 'a' }));

  const context = { message: { id: 'm', from: 'u', text: 'Two loaves', attachments: [] } };
  const hook = service.session('POST', `/sessions/${session}/hooks/inboundMessage`, { context });
  await eventually(async () => (await keys(service, session)).includes('begun'));
  const accepted: string[] = [];
  for (let index = 0; index < WEBHOOKS; index += 1) {
    const answer = await fetch(channel.webhookUrl, {
      method: 'POST',
      body: String(index),
      headers: { connection: 'close' },
    });
    if (answer.status === 200) accepted.push(`got ${index}`);
    await answer.arrayBuffer();
  }
  const upload = service.call('POST', `/api/plugins/${plugin}/versions`, { semVer: '1.1.0', files }).catch(() => null);
  const commands = (await service.processes()).map(({ command }) => command);
  t.notOk(
    commands.some((command) => command.includes('postgres')),
    'with DATABASE_URL no PostgreSQL is started',
  );
  t.notOk(existsSync(join(service.env.DATA_DIR, 'postgres')), 'and no data directory of one is made');
  service.kill('SIGTERM');

  t.match(await hook, {
    status: 200,
    body: { action: 'continue', context: { message: { text: 'Two loaves, taken' } } },
  });
  // It arrived before the signal, or was refused a connection; it is not left half-way.
  const uploaded = await upload;
  t.ok(uploaded === null || uploaded.status === 201, `publish: ${uploaded?.status}`);
  t.match(await service.exited, {
    code: 0,
    stdout: /stopping\nthe API stopped\nthe supervisor stopped$/,
  });
  t.same(await service.leftovers(), []);
  t.equal(accepted.length, WEBHOOKS, 'all were accepted');

  const { DATA_DIR, SUPERVISOR_PORT } = service.env;
  await startProcess(t, { url: DATABASE_URL, dataDir: DATA_DIR }, { SUPERVISOR_PORT });
  const missing = await eventually(async () => {
    const seen = new Set(await keys(service, session).catch(() => []));
    return accepted.every((key) => seen.has(key)) && 'none';
  });
  t.equal(missing, 'none', 'every accepted webhook reached the plugin');
  const { rowCount } = await pool.query('SELECT 1 FROM versions WHERE plugin_id = $1', [plugin]);
  t.equal(rowCount, uploaded === null ? rowCount : 2);
});
