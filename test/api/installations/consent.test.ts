/** Consent to more access: the cases in which others lost it, or lost the service over it. */

import { pino } from 'pino';
import t from 'tap';
import { completeUpdate } from '../../../db/installations/updates.ts';
import { REMEMBERED_SECRETS_MAX } from '../../../sdk/contract/capabilities.ts';
import { openVerifier } from '../../../service/identity/tokens.ts';
import { openSandbox } from '../../../supervisor/jail/sandbox.ts';
import { startSupervisor } from '../../../supervisor/supervisor.ts';
import { childPrograms } from '../../runner/child-program.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { soakTest } from '../../runner/soak.ts';
import { defaultOptions } from '../../supervisor/default-options.ts';
import { type Client, startApiFixture } from '../api-fixture.ts';
import { fileList, INDEX, MINIMAL, readmeWith } from '../package/packages.ts';

const api = await startApiFixture(t, { readsInProcess: true });
const ann = await api.user('ann');
const ben = await api.user('ben');
let count = 0;

const saying = (text: string, ...capabilities: string[]) => ({
  'readme.md': readmeWith(`capabilities: ${JSON.stringify(capabilities)}`),
  'index.ts': INDEX.replace(' Be kind.', ` ${text}`),
});
async function listed(files: Parameters<typeof fileList>[0] = MINIMAL) {
  count += 1;
  const slug = `plugin-${count}`;
  const { id } = (await ann.post('/plugins', { slug, displayName: slug })).body;
  const publish = async (semVer: string, of: Parameters<typeof fileList>[0]) => {
    const made = await ann.post(`/plugins/${id}/versions`, { semVer, files: fileList(of) });
    if (made.status !== 201) throw new Error(JSON.stringify(made.body));
    return made.body.id as string;
  };
  const first = await publish('1.0.0', files);
  await ann.post(`/plugins/${id}/listing`);
  return { slug, id: id as string, first, publish };
}
async function installs(who: Client, slug: string) {
  const path = `/installations/${(await who.post('/installations', { slug })).body.id}`;
  return { path, id: path.split('/')[2] ?? '', get: async () => (await who.get(path)).body };
}

/** Makes the version of the update under way current, as a supervisor does. */
async function move(installationId: string) {
  const sql = 'SELECT target_version_id AS id FROM installations WHERE id = $1';
  const target = (await api.pool.query(sql, [installationId])).rows[0];
  if (target.id) await completeUpdate(api.pool, api.services.queues, { installationId, versionId: target.id });
}

t.test('a plugin that had handles of a secret reads it, or uses it elsewhere, only with consent', async (t) => {
  const using = (secret: string) => ({
    ...MINIMAL,
    'readme.md': readmeWith(`capabilities: ["host.http:*.example.com"]\nsecrets: { key: ${secret} }`),
  });
  const plugin = await listed(using('{ use: [http:api.example.com, webhooks] }'));
  const installation = await installs(ben, plugin.slug);
  const { body: entry } = await ben.get(`/marketplace/${plugin.slug}`);
  const sentences = entry.reach.map(({ sentence }: { sentence: string }) => sentence);
  t.ok(sentences.includes('Has the secret “key” sent to api.example.com, without seeing its value.'));
  t.ok(sentences.includes('Has webhook signatures checked with the secret “key”, without seeing its value.'));
  t.match(entry.configuration.secrets, [{ name: 'key', use: ['http:api.example.com', 'webhooks'] }]);

  await plugin.publish('1.1.0', using('{ use: [http:api.example.com] }'));
  t.match(await installation.get(), { pendingUpdate: null }, 'less needs none');
  await plugin.publish('1.2.0', using('{ use: [http:www.example.com] }'));
  t.match(await installation.get(), { pendingUpdate: { added: ['secrets.key:http:www.example.com'] } }, 'another host');
  await plugin.publish('1.3.0', using('{}'));
  const pending = (await installation.get()).pendingUpdate;
  t.match(pending, { semVer: '1.3.0', added: ['secrets.key'] }, 'the value itself');
  t.match(await ben.post(`${installation.path}/accept-update`, { versionId: pending.versionId }), { status: 200 });
  await plugin.publish('1.4.0', using('{ use: [webhooks] }'));
  t.match(await installation.get(), { pendingUpdate: null }, 'what reads the value may be restricted to a handle');
});

const declaring = (secrets: string, ...capabilities: string[]) => ({
  ...MINIMAL,
  'readme.md': readmeWith(`capabilities: ${JSON.stringify(capabilities)}\n${secrets}`),
});
const USED = 'secrets: { key: { use: [webhooks] } }';
const READ = 'secrets: { key: {} }';
const giveKey = (path: string, key: string | null = 's3cret') => ben.post(`${path}/configure`, { secrets: { key } });

await soakTest(t, 'versions that do not declare a secret do not change what its user allowed', async (t) => {
  const plugin = await listed(declaring(USED));
  const installation = await installs(ben, plugin.slug);
  t.match(await giveKey(installation.path), { status: 200, body: { secretNames: ['key'] } });
  await plugin.publish('1.0.1', declaring(''));
  await move(installation.id);
  t.match(await installation.get(), { currentSemVer: '1.0.1', pendingUpdate: null, secretNames: ['key'] });
  await plugin.publish('1.0.2', declaring(READ));
  t.match(await installation.get(), { pendingUpdate: { semVer: '1.0.2', added: ['secrets.key'] } });
  await plugin.publish('1.0.3', declaring(USED));
  await move(installation.id);
  t.match(await installation.get(), { currentSemVer: '1.0.3', pendingUpdate: null }, 'the same use');
});

t.test('a user who saw that a plugin has a handle is asked before a version reads the value', async (t) => {
  const plugin = await listed(declaring(USED));
  const installation = await installs(ben, plugin.slug);
  await plugin.publish('1.0.1', declaring(''));
  await move(installation.id);
  await plugin.publish('1.0.2', declaring(READ));
  t.match(await installation.get(), { currentSemVer: '1.0.1', pendingUpdate: { added: ['secrets.key'] } });
});

await soakTest(t, 'a handle that its user accepted is remembered, also if that version never runs', async (t) => {
  const plugin = await listed(declaring('', 'host.http:api.example.com'));
  const installation = await installs(ben, plugin.slug);
  const required = 'secrets: { key: { required: true, use: [http:api.example.com] } }';
  const versionId = await plugin.publish('2.0.0', declaring(required, 'host.http:api.example.com'));
  t.match((await installation.get()).pendingUpdate, { added: [], missing: ['key'] });
  const accepted = await ben.post(`${installation.path}/accept-update`, { versionId });
  t.match(accepted.body, { currentSemVer: '1.0.0', updateUnderWay: { versionId } }, 'it waits for the key');
  await plugin.publish('2.0.1', declaring(READ, 'host.http:api.example.com'));
  t.match(await installation.get(), { updateUnderWay: { versionId }, pendingUpdate: { added: ['secrets.key'] } });
  t.match(await ann.post(`/plugins/${plugin.id}/versions/${versionId}/yank`), { status: 200 });
  const left = { currentSemVer: '1.0.0', updateUnderWay: null, pendingUpdate: { added: ['secrets.key'] } };
  t.match(await installation.get(), left, 'also after a yank');
});

await soakTest(
  t,
  'the handles of many versions do not accumulate: beyond a maximum, a new secret needs consent',
  async (t) => {
    const plugin = await listed();
    const saveDraft = async (files: typeof MINIMAL) => {
      const saved = await ann.post(`/plugins/${plugin.id}/draft`, { files: fileList(files) });
      t.equal(saved.status, 200, saved.body.detail);
    };
    const withSecrets = (names: readonly string[]) =>
      declaring(
        `secrets: { ${names.map((name) => `${name}: { use: [webhooks, http:a.example.com] }`).join(', ')} }`,
        'host.http:a.example.com',
      );
    const nameTen = (draft: number) => Array.from({ length: 10 }, (_, index) => `s${draft}-${index}`);
    await saveDraft(withSecrets(nameTen(0)));
    const made = await ann.post('/installations', { slug: plugin.slug, versionPolicy: 'Draft' });
    const path = `/installations/${made.body.id}`;
    for (let draft = 1; draft < 20; draft += 1) await saveDraft(withSecrets(nameTen(draft)));
    const stored = await api.pool.query('SELECT granted_capabilities AS granted FROM installations WHERE id = $1', [
      made.body.id,
    ]);
    // The resource shows those of the version only.
    const handles = stored.rows[0].granted.filter((one: string) => one.startsWith('secrets.'));
    t.equal(handles.length, 2 * REMEMBERED_SECRETS_MAX);
    for (const name of nameTen(19))
      t.ok(handles.includes(`secrets.${name}:webhooks`), 'those of the version are there');
    const [, remembered] = /^secrets\.(?!s19-)([\w-]+)/m.exec(handles.join('\n')) ?? [];
    await plugin.publish('1.1.0', withSecrets([remembered ?? '']));
    t.match((await ann.patch(path, { versionPolicy: 'Latest' })).body, { currentSemVer: '1.1.0', pendingUpdate: null });
    await plugin.publish('1.2.0', withSecrets(['fresh']));
    const added = ['secrets.fresh:http:a.example.com', 'secrets.fresh:webhooks'];
    t.same(new Set((await ann.get(path)).body.pendingUpdate.added), new Set(added));
  },
);

t.test('a value is given for the use that the form shows: that of the version of the update under way', async (t) => {
  const plugin = await listed(declaring(READ));
  const installation = await installs(ben, plugin.slug);
  await plugin.publish('1.0.1', declaring(USED));
  await giveKey(installation.path);
  const readAllowed = async () => {
    const sql = 'SELECT capabilities FROM installation_secrets WHERE installation_id = $1';
    return (await api.pool.query(sql, [installation.id])).rows[0].capabilities.toSorted();
  };
  t.same(await readAllowed(), ['secrets.key:webhooks'], 'the version that runs may read it, but not this value');
  await move(installation.id);
  const versionId = await plugin.publish('1.0.2', declaring(READ));
  t.match(await installation.get(), { pendingUpdate: { added: ['secrets.key'] } });
  t.match(await ben.post(`${installation.path}/accept-update`, { versionId }), { status: 200 });
  await move(installation.id);
  t.same(await readAllowed(), ['secrets.key', 'secrets.key:webhooks'], 'the consent allows more');
});

await soakTest(t, 'after a user gave a value, no crash loop returns to a version with more access', async (t) => {
  const previousOf = async (id: string) => {
    const sql = 'SELECT previous_version_id AS previous FROM installations WHERE id = $1';
    return (await api.pool.query(sql, [id])).rows[0].previous;
  };
  const plugin = await listed(declaring(READ, 'host.workspace'));
  const installation = await installs(ben, plugin.slug);
  await plugin.publish('1.0.1', declaring(READ));
  await move(installation.id);
  t.equal(await previousOf(installation.id), plugin.first);
  await giveKey(installation.path, null);
  t.equal(await previousOf(installation.id), plugin.first, 'no value was given');
  await giveKey(installation.path);
  t.equal(await previousOf(installation.id), null);
});

await soakTest(t, 'an installation older than the rule keeps running with what it has, and can be asked', async (t) => {
  const plugin = await listed(saying('One.', 'host.workspace'));
  const installation = await installs(ben, plugin.slug);
  // As if made before grants were written down.
  await api.pool.query(`UPDATE installations SET granted_capabilities = '{}' WHERE id = $1`, [installation.id]);
  t.match(await installation.get(), { status: 'ready', currentSemVer: '1.0.0', grantedCapabilities: [] });
  const response = await ben.patch(installation.path, { versionPolicy: 'Latest' });
  t.match(response.body, {
    status: 'ready',
    currentSemVer: '1.0.0',
    pendingUpdate: { semVer: '1.0.0', added: ['host.workspace', 'middleware.systemPrompt'], removed: [] },
  });
  const accepted = await ben.post(`${installation.path}/accept-update`, { versionId: plugin.first });
  t.match(accepted.body, { grantedCapabilities: ['host.workspace', 'middleware.systemPrompt'], pendingUpdate: null });
  await api.pool.query(`UPDATE installations SET granted_capabilities = '{}' WHERE id = $1`, [installation.id]);
  await plugin.publish('1.1.0', saying('Two.', 'host.workspace'));
  t.match(await installation.get(), { currentSemVer: '1.0.0', pendingUpdate: { semVer: '1.1.0' } }, 'nor do they move');
});

t.test('an error names the version to accept instead', async (t) => {
  const plugin = await listed();
  const installation = await installs(ben, plugin.slug);
  const second = await plugin.publish('1.1.0', saying('Two.', 'host.llm'));
  const refused = await ben.post(`${installation.path}/accept-update`, { versionId: plugin.first });
  t.match(refused, { status: 409, body: { code: 'not_pending' } });
  t.equal(
    refused.body.detail,
    `The pending update is 1.1.0, not the version that you accepted. Read what it asks for, then accept it (versionId ${second}).`,
  );
  const done = await ben.post(`${installation.path}/accept-update`, { versionId: second });
  t.equal(done.status, 200, 'and that works');
  const none = await ben.post(`${installation.path}/accept-update`, { versionId: second });
  t.equal(none.body.detail, 'No update is pending.');
});

t.test('the difference is shown before anybody consents', async (t) => {
  const plugin = await listed(saying('One.', 'host.media', 'host.http:*.example.com'));
  const installation = await installs(ben, plugin.slug);
  await plugin.publish('1.1.0', saying('Two.', 'host.llm', 'host.http:api.example.com'));
  t.match((await installation.get()).pendingUpdate, {
    semVer: '1.1.0',
    added: ['host.llm'],
    removed: ['host.http:*.example.com', 'host.media'],
  });
});

t.test('what models read and the source are compared before anybody consents', async (t) => {
  const files = (description: string, command: string, more: string, ...capabilities: string[]) => ({
    'readme.md': readmeWith(`capabilities: [${capabilities.join(', ')}]`),
    'index.ts': `tools.bell = { description: '${description}', parameters: { type: 'object' }, handler: () => 'ding' };`,
    'commands/greet.md': command,
    ...(more === '' ? {} : { 'lib.ts': more }),
  });
  const plugin = await listed(files('Rings.', 'Say hello.', '', 'host.media'));
  const installation = await installs(ben, plugin.slug);
  t.equal((await ben.get(`${installation.path}/update-changes`)).body.code, 'not_pending');
  await plugin.publish('1.1.0', files('Rings twice.', 'Say hello.\nThen bow.', 'export {};', 'host.media', 'host.llm'));
  const { body } = await ben.get(`${installation.path}/update-changes`);
  t.match(body, { semVer: '1.1.0', fromSemVer: '1.0.0' });
  const show = (changes: { change: string; lines: { kind: string; text: string }[] }[]) =>
    changes.map(({ lines, ...of }) => ({
      ...of,
      lines: lines
        .filter(({ kind }) => kind === 'added' || kind === 'removed')
        .map(({ kind, text }) => `${kind} ${text}`),
    }));
  t.match(show(body.texts), [
    { kind: 'tool', name: 'bell', change: 'changed', lines: ['removed Rings.', 'added Rings twice.'] },
    { kind: 'command', name: 'greet', change: 'changed', lines: ['added Then bow.'] },
  ]);
  t.match(show(body.files), [
    { path: 'index.ts', change: 'changed' },
    { path: 'lib.ts', change: 'added', lines: ['added export {};'] },
    { path: 'readme.md', lines: ['removed capabilities: [host.media]', 'added capabilities: [host.media, host.llm]'] },
  ]);
  t.equal((await ann.get(`${installation.path}/update-changes`)).status, 404, 'for its user only');
  const long = { 'assets/long.txt': '\n'.repeat(20_001), 'assets/short.txt': '\n'.repeat(10) };
  await plugin.publish('1.2.0', { ...files('Rings twice.', 'Say hello.', '', 'host.media', 'host.llm'), ...long });
  const changesOf = (versionId: string) => ben.get(`${installation.path}/update-changes?versionId=${versionId}`);
  const outdated = await changesOf(body.versionId);
  t.match(outdated, {
    status: 409,
    body: { code: 'not_pending', detail: /^The update is 1\.2\.0 now/ },
  });
  const pending = (await ben.get(installation.path)).body.pendingUpdate;
  t.match((await changesOf(pending.versionId)).body, { versionId: pending.versionId, semVer: '1.2.0' });
  const next = (await ben.get(`${installation.path}/update-changes`)).body.files;
  t.match(
    next.filter(({ path }: { path: string }) => path.startsWith('assets/')),
    [
      { path: 'assets/long.txt', change: 'added', lines: null },
      { path: 'assets/short.txt', lines: { length: 10 } },
    ],
    'a file of too many lines is only listed',
  );
});

await soakTest(t, 'an account compares some of its updates at once, and leaves places to others', async (t) => {
  const plugin = await listed();
  const [bens, anns] = [await installs(ben, plugin.slug), await installs(ann, plugin.slug)];
  await plugin.publish('1.1.0', saying('Two.', 'host.llm'));
  const compare = (who: Client, { path }: { path: string }) => who.get(`${path}/update-changes`);
  const holder = await api.pool.connect();
  try {
    await holder.query('BEGIN; LOCK TABLE version_files IN ACCESS EXCLUSIVE MODE');
    const under = Array.from({ length: 7 }, () => compare(ben, bens));
    t.match(await Promise.race(under), {
      status: 429,
      headers: { 'retry-after': '1' },
      body: {
        code: 'rate_limited',
        detail: 'This process is comparing 6 updates, 6 of them from this account. Retry after 1 s.',
      },
    });
    under.push(compare(ann, anns));
    await holder.query('COMMIT');
    const statuses = (await Promise.all(under)).map(({ status }) => status);
    t.same(statuses.toSorted(), [...Array(7).fill(200), 429]);
    t.equal((await compare(ben, bens)).status, 200, 'the places are free again');
  } finally {
    holder.release(true);
  }
});

await soakTest(t, 'a change far along a line is shown, and what is not shown is counted', async (t) => {
  // Models read the description, so it is whole; the library is code, whose lines are cut.
  const long = 'Ring softly. '.repeat(100);
  const table = 'x'.repeat(1_000);
  const files = (end: string, ...more: string[]) => ({
    'readme.md': readmeWith(`capabilities: [${end === '' ? '' : 'host.llm'}]`),
    'index.ts': `import './lib.ts';\ntools.bell = { description: '${long}${end}', parameters: { type: 'object' }, handler: () => 'ding' };`,
    'lib.ts': [`export const table = '${table}${end}${table}';`, 'export {};', ...more].join('\n'),
    'commands/greet.md': `${long}${end}`,
  });
  const plugin = await listed(files(''));
  const installation = await installs(ben, plugin.slug);
  await plugin.publish('1.1.0', files('Send it.', `const a = 1;${' '.repeat(500)}const b = 2;`));
  const { body } = await ben.get(`${installation.path}/update-changes`);
  const find = (lines: { kind: string; text: string }[], kind: string): string[] =>
    lines.filter((line) => line.kind === kind).map(({ text }) => text);
  for (const { name, lines } of body.texts)
    t.same([find(lines, 'removed'), find(lines, 'added')], [[long], [`${long}Send it.`]], name);
  const { lines } = body.files.find(({ path }: { path: string }) => path === 'lib.ts');
  const [added, hidden] = find(lines, 'added');
  t.match(added, /^… 982 characters not shown … x{40}Send it\.x+ … 550 characters not shown …$/);
  t.match(find(lines, 'removed')[0], /^… 982 characters not shown … x+ … 542 characters not shown …$/);
  t.equal(hidden, 'const a = 1; … 500 spaces … const b = 2;');
});

await soakTest(t, 'a large asset does not hide what changed in prompts and code', async (t) => {
  const files = (text: string) => ({
    ...saying(text),
    'assets/list.txt': Array.from({ length: 6_000 }, (_, line) => `${text} ${line}`).join('\n'),
    'commands/greet.md': text,
    'skills/bread/SKILL.md': `---\nname: bread\ndescription: Bakes\n---\n${text}`,
  });
  const plugin = await listed(files('One.'));
  const installation = await installs(ben, plugin.slug);
  await plugin.publish('1.1.0', { ...files('Two.'), ...saying('Two.', 'host.llm') });
  const { body } = await ben.get(`${installation.path}/update-changes`);
  t.match(body.texts, [
    {
      kind: 'command',
      name: 'greet',
      lines: [
        { kind: 'removed', text: 'One.' },
        { kind: 'added', text: 'Two.' },
      ],
    },
    { kind: 'skill', name: 'bread', lines: Array },
  ]);
  t.match(body.files, [
    { path: 'assets/list.txt', lines: null },
    { path: 'index.ts', lines: Array },
    { path: 'readme.md', lines: Array },
  ]);
});

t.test('a newer publish cannot ride on a consent to an older one', async (t) => {
  const plugin = await listed();
  const installation = await installs(ben, plugin.slug);
  const shown = await plugin.publish('1.1.0', saying('Two.', 'host.llm'));
  await plugin.publish('1.2.0', saying('Three.', 'host.llm', 'host.ssh'));
  const late = await ben.post(`${installation.path}/accept-update`, { versionId: shown });
  t.equal(late.status, 409);
  t.match(await installation.get(), { currentSemVer: '1.0.0', grantedCapabilities: ['middleware.systemPrompt'] });
  const racing = await listed();
  const other = await installs(ben, racing.slug);
  const published = await racing.publish('1.1.0', saying('Two.', 'host.llm'));
  await Promise.all([
    ben.post(`${other.path}/accept-update`, { versionId: published }),
    racing.publish('1.2.0', saying('Three.', 'host.llm', 'host.ssh')),
  ]);
  t.notOk((await other.get()).grantedCapabilities.includes('host.ssh'), 'whichever came first');
});

await soakTest(t, 'an update that its user accepted is not asked about again while it waits to run', async (t) => {
  const plugin = await listed();
  const { path } = await installs(ben, plugin.slug);
  await ben.post(`${path}/pause`);
  const versionId = await plugin.publish('1.1.0', saying('More.', 'host.llm'));
  t.match(await ben.post(`${path}/accept-update`, { versionId }), { status: 200 });
  const underWay = { pendingUpdate: null, updateUnderWay: { versionId } };
  t.match((await ben.patch(path, { versionPolicy: 'Pinned', pinnedVersionId: versionId })).body, underWay);
  t.match((await ben.patch(path, { versionPolicy: 'Latest' })).body, underWay);
});

t.test('a pending update begins when an update gives the access that it asks for', async (t) => {
  const plugin = await listed();
  const { path, get } = await installs(ben, plugin.slug);
  await ben.post(`${path}/pause`);
  const accepted = await plugin.publish('1.1.0', saying('More.', 'host.llm'));
  t.match(await ben.post(`${path}/accept-update`, { versionId: accepted }), { status: 200 });
  await plugin.publish('1.2.0', saying('Again.', 'host.llm'));
  t.match(await get(), {
    updateUnderWay: { versionId: accepted },
    pendingUpdate: { semVer: '1.2.0', added: ['host.llm'] },
  });
  await ben.post(`${path}/resume`);
  t.match(await get(), { currentSemVer: '1.2.0', updateUnderWay: null, pendingUpdate: null });

  const waiting = await plugin.publish('2.0.0', declaring('secrets: { key: { required: true } }', 'host.ssh'));
  await ben.post(`${path}/accept-update`, { versionId: waiting });
  await plugin.publish('2.0.1', declaring('secrets: { key: { required: true } }', 'host.ssh'));
  t.match(await get(), {
    currentSemVer: '1.2.0',
    updateUnderWay: { versionId: waiting },
    pendingUpdate: { semVer: '2.0.1' },
  });
  await giveKey(path);
  t.match(await get(), { currentSemVer: '2.0.1', updateUnderWay: null, pendingUpdate: null });
});

t.test('a pending update begins when its user gives what it needs, or no longer requires the plugin', async (t) => {
  const command = `commands.a = { description: 'x', handler: () => 'a' };`;
  const inCities = (cities: string, code: string) => ({
    ...declaring(`settings: { city: { required: true, enum: [${cities}] } }`),
    'index.ts': code,
  });
  const plugin = await listed(inCities('bern, rome', INDEX + command));
  const { path, get } = await installs(ben, plugin.slug);
  const choose = (city: string) => ben.post(`${path}/configure`, { settings: { city } });
  await choose('bern');
  await plugin.publish('1.1.0', inCities('oslo, rome', INDEX + command));
  t.match(await get(), { currentSemVer: '1.0.0', pendingUpdate: { added: [], missing: ['city'] } });
  await choose('rome');
  t.match(await get(), { currentSemVer: '1.1.0', pendingUpdate: null });

  await ben.patch(path, { required: true });
  await plugin.publish('1.2.0', inCities('oslo, rome', command));
  t.match(await get(), { currentSemVer: '1.1.0', pendingUpdate: { semVer: '1.2.0', added: [], missing: [] } });
  await ben.patch(path, { required: false });
  t.match(await get(), { currentSemVer: '1.2.0', pendingUpdate: null });
});

await soakTest(t, 'a pending version that its author is yanking does not begin', async (t) => {
  const plugin = await listed();
  const { path, id, get } = await installs(ben, plugin.slug);
  await ben.post(`${path}/pause`);
  const accepted = await plugin.publish('1.1.0', saying('More.', 'host.llm'));
  await ben.post(`${path}/accept-update`, { versionId: accepted });
  const yanked = await plugin.publish('1.2.0', saying('Again.', 'host.llm'));
  await api.pool.query(`UPDATE installations SET status = 'ready' WHERE id = $1`, [id]);
  const yank = await api.pool.connect();
  t.teardown(() => yank.release());
  await yank.query('BEGIN');
  await yank.query(`UPDATE versions SET status = 'yanked', yanked_at = now() WHERE id = $1`, [yanked]);
  await move(id);
  t.match(await get(), { currentSemVer: '1.1.0', updateUnderWay: null, pendingUpdate: { semVer: '1.2.0' } });
  await yank.query('ROLLBACK');
});

t.test('once a plugin is required, an update under way that drops its hook waits for consent', async (t) => {
  const command = `commands.a = { description: 'x', handler: () => 'a' };`;
  const plugin = await listed({ ...MINIMAL, 'index.ts': `${INDEX}\n${command}` });
  const { path, get } = await installs(ben, plugin.slug);
  await ben.post(`${path}/pause`);
  const versionId = await plugin.publish('1.1.0', { ...MINIMAL, 'index.ts': command });
  await plugin.publish('2.0.0', saying('Two.', 'host.llm'));
  t.match(await get(), { updateUnderWay: { versionId }, pendingUpdate: { semVer: '2.0.0' } });
  const change = { required: true, versionPolicy: 'Pinned', pinnedVersionId: versionId };
  t.match((await ben.patch(path, change)).body, { updateUnderWay: null, pendingUpdate: { versionId } });
});

await soakTest(t, 'a plugin that becomes required keeps the question about the newer version', async (t) => {
  const command = `commands.a = { description: 'x', handler: () => 'a' };`;
  const plugin = await listed({ ...MINIMAL, 'index.ts': `${INDEX}\n${command}` });
  const { path, get } = await installs(ben, plugin.slug);
  await ben.post(`${path}/pause`);
  await plugin.publish('1.1.0', { ...MINIMAL, 'index.ts': command });
  await plugin.publish('2.0.0', saying('Two.', 'host.llm'));
  t.match(await get(), { updateUnderWay: { semVer: '1.1.0' }, pendingUpdate: { semVer: '2.0.0' } });
  t.match((await ben.patch(path, { required: true })).body, {
    updateUnderWay: null,
    pendingUpdate: { semVer: '2.0.0' },
  });
});

t.test('a version published between the look and the click cannot ride on the consent to install', async (t) => {
  const plugin = await listed(saying('One.', 'host.media'));
  const consented = { slug: plugin.slug, versionId: plugin.first };
  const second = await plugin.publish('1.1.0', saying('Two.', 'host.llm', 'host.media'));
  const late = await ben.post('/installations', consented);
  t.match(late, { status: 409, body: { code: 'not_pending' } });
  t.equal(
    late.body.detail,
    `1.1.0 requests more than 1.0.0, which you consented to: host.llm. Read what it asks for, then install it (versionId ${second}).`,
  );
  t.equal((await ben.get(`/marketplace/${plugin.slug}`)).body.installed, false, 'nothing is installed');
  await plugin.publish('1.2.0', saying('Three.'));
  const less = await ben.post('/installations', consented);
  t.match(less, { status: 201, body: { currentSemVer: '1.2.0', grantedCapabilities: ['middleware.systemPrompt'] } });
  const other = await listed();
  const foreign = await ben.post('/installations', { slug: other.slug, versionId: plugin.first });
  t.match(foreign, { status: 404, body: { errors: [{ field: 'versionId' }] } });
  const pinned = { slug: other.slug, versionPolicy: 'Pinned', pinnedVersionId: other.first, versionId: other.first };
  t.equal((await ben.post('/installations', pinned)).status, 201);
});

t.test('a version published between the look and the click cannot drop the hook of a required plugin', async (t) => {
  const command = `commands.a = { description: 'x', handler: () => 'a' };`;
  const plugin = await listed({ ...MINIMAL, 'index.ts': `${INDEX}\n${command}` });
  const consented = { slug: plugin.slug, versionId: plugin.first };
  const second = await plugin.publish('1.1.0', { ...MINIMAL, 'index.ts': command });
  const late = await ben.post('/installations', { ...consented, required: true });
  t.match(late, {
    status: 409,
    body: {
      code: 'not_pending',
      detail: `1.1.0 lacks hooks of 1.0.0, which you consented to: middleware.systemPrompt. Read what it asks for, then install it (versionId ${second}).`,
    },
  });
  t.equal((await ben.post('/installations', consented)).status, 201, 'it may where nothing is required');
});

t.test('a supervisor starts with a consent pending, runs the old version, and the other plugins', async (t) => {
  const cleo = await api.user('cleo');
  const [asking, quiet] = [await listed(saying('Old.')), await listed(saying('Quiet.'))];
  const installation = await installs(cleo, asking.slug);
  await installs(cleo, quiet.slug);
  const second = await asking.publish('2.0.0', saying('New.', 'host.llm'));
  const { pool, blobs, keys } = { ...api, ...api.services };
  const verifier = await openVerifier({ DATA_DIR: api.dataDir, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined });
  const sandbox = await openSandbox({ mode: 'auto', directory: await temporaryFolder(t), ...(await childPrograms()) });
  const logger = pino({ level: 'silent' });
  const supervisor = await startSupervisor({
    ...defaultOptions,
    pool,
    blobs,
    keys,
    verifier,
    sandbox,
    logger,
    childrenMax: 10,
    dataDir: api.dataDir,
  });
  t.teardown(() => supervisor.stop());
  const headers = { authorization: `Bearer ${cleo.token}` };
  const post = async (url: string, payload: object) =>
    (await supervisor.app.inject({ method: 'POST', url, headers, payload })).json();
  const session = await post('/sessions', { agentId: 'a' });
  const prompt = async () => {
    const context = { systemPrompt: 'Help.', model: 'm' };
    return (await post(`/sessions/${session.id}/hooks/systemPrompt`, { context })).context.systemPrompt;
  };
  t.equal(await prompt(), 'Help. Old. Quiet.');
  t.match(await installation.get(), {
    currentSemVer: '1.0.0',
    pendingUpdate: { semVer: '2.0.0', added: ['host.llm'] },
  });
  await cleo.post(`${installation.path}/accept-update`, { versionId: second });
  while ((await prompt()) !== 'Help. New. Quiet.') await new Promise((resolve) => setTimeout(resolve, 20));
  t.pass('and the new version once it is accepted');
});
