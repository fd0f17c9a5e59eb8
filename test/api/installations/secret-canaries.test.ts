/**
 * Fifty secrets are given, refused, used, crashed with and forgotten. Afterwards none of them is found in any answer, any
 * table, any file, or anything API and supervisor wrote: in no encoding that a careless line of code would make of it.
 */
import { randomBytes } from 'node:crypto';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pool } from 'pg';
import t from 'tap';
import { eventually } from '../../supervisor/supervisor-fixture.ts';
import { fileList, readmeWith } from '../package/packages.ts';
import { startProcesses } from '../service-processes.ts';

const SECRETS = 50;
/** In all of them, and in nothing else in the fixture. */
const mark = `Canary${randomBytes(12).toString('hex')}`;
const canary = (index: number): string => `${mark}-${String(index).padStart(2, '0')}-${randomBytes(8).toString('hex')}`;

/** The mark as text, hex, both cases, and base64 at each of the three places it may begin at. */
const needles: readonly Buffer[] = [
  ...[mark, mark.toLowerCase(), mark.toUpperCase()],
  ...[Buffer.from(mark).toString('hex'), Buffer.from(mark).toString('hex').toUpperCase()],
  ...[0, 1, 2].map((offset) => {
    const text = Buffer.from(' '.repeat(offset) + mark).toString('base64');
    return text.slice(Math.ceil((offset * 4) / 3), -4);
  }),
].flatMap((text) => [Buffer.from(text), Buffer.from(text, 'utf16le')]);
const holds = (bytes: Buffer | string): boolean => {
  const where = Buffer.from(bytes as string);
  return needles.some((needle) => where.includes(needle));
};

const names = Array.from({ length: SECRETS }, (_, index) => `key${index}`);
const PACKAGE = {
  'readme.md': readmeWith(`secrets: { ${names.map((name) => `${name}: {}`).join(', ')} }`),
  'index.ts': `
const parameters = { type: 'object' };
const all = async () => await Promise.all(${JSON.stringify(names)}.map((name) => host.secrets.get(name)));
let kept: unknown[] = [];
tools.count = { description: 'c', parameters, handler: async () => String(new Set(await all()).size) };
tools.fail = { description: 'f', parameters, handler: async () => { kept = await all(); throw new Error('failed'); } };
middleware.systemPrompt = async () => { kept = await all(); for (;;) kept.length; };
tools.eat = { description: 'e', parameters, handler: async () => {
  for (const text = (await all()).join(); ; ) kept.push(new Array(100000).fill(0).map((_, i) => text + i));
} };
`,
};

t.setTimeout(240_000);
const service = await startProcesses(t);
const token = await service.token('ann');
const answers: string[] = [];

async function call(method: string, url: string, body?: unknown, type = 'application/json') {
  const headers = { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'content-type': type }) };
  const payload = body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body);
  const answer = await fetch(url, { method, headers, body: payload });
  const text = await answer.text();
  answers.push(JSON.stringify([...answer.headers]), text);
  return { status: answer.status, body: text.startsWith('{') ? JSON.parse(text) : text };
}
const rest = (method: string, path: string, body?: unknown, type?: string) =>
  call(method, service.apiUrl + path, body, type);

const { body: plugin } = await rest('POST', '/plugins', { slug: 'keeper', displayName: 'Keeper' });
const published = await rest('POST', `/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files: fileList(PACKAGE) });
if (published.status !== 201) throw new Error(JSON.stringify(published.body));
const { body: installation } = await rest('POST', '/installations', { slug: 'keeper' });
const configure = `/installations/${installation.id}/configure`;

t.test('given and used', async (t) => {
  const secrets = Object.fromEntries(names.map((name, index) => [name, canary(index)]));
  const done = await rest('POST', configure, { secrets });
  t.equal(done.status, 200);
  t.same(done.body.secretNames, names.toSorted());
  const { body: session } = await call('POST', `${service.sessionUrl}/sessions`, { agentId: 'a' });
  const tool = (name: string) =>
    call('POST', `${service.sessionUrl}/sessions/${session.id}/tools/keeper__${name}`, { callId: name, arguments: {} });
  t.match((await tool('count')).body.content, [{ text: String(SECRETS) }], 'the child that owns them has all of them');
  const again = () => eventually(async () => (await tool('count')).body.content?.[0]?.text === String(SECRETS), 60_000);
  for (const crash of ['fail', 'eat']) {
    const { status, body } = await tool(crash);
    t.ok(status >= 400 || body.isError, `${crash}: ${status}`);
    await again();
  }
  const context = { systemPrompt: 'Help.', model: 'm' };
  const hung = await call('POST', `${service.sessionUrl}/sessions/${session.id}/hooks/systemPrompt`, { context });
  t.match(hung.body, { context: { systemPrompt: 'Help.' } }, 'killed at its deadline');
  await again();
});

t.test('refused', async (t) => {
  const value = canary(0);
  const refusals: [unknown, string?][] = [
    [{ secrets: { unknown: value } }],
    [{ secrets: { key0: [value] } }],
    [{ secrets: { key0: `${value}\0` } }],
    [{ secrets: { key0: value.repeat(1000) } }],
    [{ secrets: value }],
    [{ settings: { key0: value } }],
    [{ secrets: { key0: value, [`key${SECRETS}`]: value } }],
    [`{"secrets": {"key0": "${value}"`],
    [`{"secrets": {"key0": ${value}}}`],
    [`"${value}`],
    [`key0=${value}`, 'application/x-www-form-urlencoded'],
    [value, 'text/plain'],
    [`{"secrets": {"key0": "${value.repeat(40_000)}"}}`],
  ];
  for (const [body, type] of refusals) {
    const { status } = await rest('POST', configure, body, type);
    t.ok(status >= 400 && status < 500, `${status}`);
  }
  t.equal((await rest('POST', `/installations/none/configure`, { secrets: { key0: value } })).status, 404);
  await service.pool.query(`ALTER TABLE installation_secrets RENAME TO hidden`);
  t.ok((await rest('POST', configure, { secrets: { key0: value } })).status >= 500, 'a fault of the database');
  await service.pool.query(`ALTER TABLE hidden RENAME TO installation_secrets`);
});

t.test('secrets appear in no file, log or response', async (t) => {
  t.ok(holds(canary(1)) && holds(Buffer.from(`x${canary(2)}`).toString('base64')), 'though it would be seen');
  for (const path of ['', '/audit', '/deliveries']) await rest('GET', `/installations/${installation.id}${path}`);
  await rest('GET', '/installations');
  const { body: logs } = await rest('GET', `/plugin-logs?installationId=${installation.id}&limit=1000`);
  t.ok(logs.items.length > 0, 'the crashes are in the log');
  t.notOk(holds(answers.join('\n')), 'in no answer');
  t.notOk(holds(service.output()), 'in nothing that API and supervisor wrote');
  t.match(service.output(), /hidden|installation_secrets|"level"/, 'though they wrote something');
  t.same(await tablesWith(service.pool), [], 'in no table');
  t.same(await filesWith(service.dataDir), [], 'in no file of the data directory');
  const { rows } = await service.pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  const cluster = await readlink(`/proc/${rows[0]?.pid}/cwd`);
  t.ok((await readdir(cluster)).includes('pg_wal'));
  t.same(await filesWith(cluster), [], 'nor in one of PostgreSQL’s: tables, write-ahead log, its own log');
});

/** Our tables and those of the queues as text, bytea as hex. PostgreSQL's own are searched as files. */
async function tablesWith(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname IN ('public', 'pgboss')`,
  );
  const found: string[] = [];
  for (const { name } of rows) {
    const dump = await pool.query<{ line: string }>(`SELECT x::text AS line FROM ${name} x`);
    if (dump.rows.some(({ line }) => line !== null && holds(line))) found.push(name);
  }
  return found;
}

async function filesWith(folder: string): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    // PostgreSQL removes files as it goes.
    const bytes = await readFile(join(entry.parentPath, entry.name)).catch(() => Buffer.alloc(0));
    if (holds(bytes)) found.push(entry.name);
  }
  return found;
}
