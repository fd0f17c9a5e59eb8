/** The examples that reach something: workspace, media, agents, and the session itself. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { root } from '../house/source-files.ts';
import { eventually } from '../runner/eventually.ts';
import { isSoak } from '../runner/soak.ts';
import { startExamplesFixture } from './examples-fixture.ts';

const service = await startExamplesFixture(t);
const logo = await readFile(join(root, 'examples/skill-pack/skills/logo/assets/logo.png'));
/** Sessions of an agent, by its name. */
const sessionsOf = async (agentName: string) => {
  const { body } = await service.call('GET', '/sessions');
  return body.items.filter((session: { agentName: string }) => session.agentName === agentName);
};

t.test('workspace-notes are shared by all agents of the account, and by no other', async (t) => {
  await service.publish('workspace-notes');
  const session = await service.session();
  const use = (tool: string, args?: object) => service.tool(session, `workspace-notes__${tool}`, args);
  t.equal(await use('list'), 'There are no notes.');
  const path = (await use('add', { text: 'The wifi is named Bulkhead' })).replace('Kept as ', '');
  await use('add', { text: '# Lunch\n\nat noon' });
  t.match(await use('list', { limit: 1 }), /^notes\/\S+\.md: # Lunch$/, 'the newest first');
  t.match(await use('search', { words: 'WIFI named' }), /^## notes\/\S+\n\nThe wifi is named Bulkhead\n\n— agent-1/);
  t.equal(await use('search', { words: 'wifi lunch' }), 'No note holds “wifi lunch”.');
  const workspace = join(service.dataDir, 'workspaces', (await account()) ?? '');
  t.match(await readFile(join(workspace, path), 'utf8'), /^The wifi/, 'a file that others may read');
  // Where the first version of the plugin kept it.
  writeFileSync(join(workspace, 'notes/2025-01-02T10-20-30.000Z-0a1b2c3d.md'), 'The safe is behind the oven');
  t.match(await use('search', { words: 'safe' }), /^## notes\/2025-01-02T\S+\n\nThe safe/);
  t.match(await use('list'), /: # Lunch\n.*: The wifi.*\n.*: The safe is behind the oven$/);
  const old = new Date();
  old.setUTCMonth(old.getUTCMonth() - 5, 1);
  const earlier = join(workspace, 'notes', old.toISOString().slice(0, 7));
  // More text than a result may have.
  const unfound = join(workspace, 'notes/2001-01');
  for (const folder of [earlier, unfound]) mkdirSync(folder);
  // More files than `host.workspace.list` lists.
  if (isSoak()) for (let number = 0; number < 5_000; number += 1) writeFileSync(join(unfound, `${number}.md`), '');
  for (let number = 0; number < 20; number += 1)
    writeFileSync(join(earlier, `${number}.md`), `cellar ${'ü'.repeat(20_000)}`);
  t.match(await use('search', { words: 'cellar' }), /^## notes\/\S+\n\ncellar ü{20000}\n## .{19000}/s);
  t.match(await use('list', { limit: 100 }), /: # Lunch\n.*: cellar ü{193}\n/s);
  if (isSoak()) t.equal(await use('search', { words: 'safe' }), 'No note holds “safe”.', 'the readme says so');
  t.equal(
    (await service.call('POST', `/sessions/${session}/tools/workspace-notes__add`, { arguments: {} })).status,
    422,
  );
});

const account = async () =>
  (await service.pool.query<{ id: string }>('SELECT account_id AS id FROM installations LIMIT 1')).rows[0]?.id;

t.test('media-gallery', async (t) => {
  const { installationId } = await service.publish('media-gallery');
  const session = await service.session();
  const use = (tool: string, args?: object) => service.tool(session, `media-gallery__${tool}`, args);
  const keep = (name: string, bytes: Buffer) => use('keep', { name, base64: bytes.toString('base64') });
  const kept = await keep('logo.txt', logo);

  await t.test('keeps a file and shows it as what it is', async (t) => {
    t.match(kept, { mediaType: 'image/png', sizeBytes: logo.length });
    t.same(await use('show', { id: kept.id }), { type: 'image', data: logo.toString('base64'), mimeType: 'image/png' });
    const { id } = await keep('plain.txt', Buffer.from('grün'));
    t.equal(await use('show', { id }), 'grün');
    t.match((await keep('again.png', logo)).id, kept.id, 'the same bytes are the same file');
    const large = await keep('large.bin', randomBytes(200_000));
    t.match(await use('show', { id: large.id }), /too large to show: 200000 bytes/);
    t.match(await use('keep', { name: 'x', base64: '???' }), /Invalid character/);
    t.match(await use('show', { id: 'elsewhere' }), /no media file has this id/);
  });

  await t.test('remembers what comes with a message', async (t) => {
    const attachments = [
      { name: 'sent.png', mediaType: 'image/png', mediaId: kept.id },
      { name: 'far.png', mediaType: 'image/png', url: 'https://example.com/far.png' },
    ];
    await service.hook(session, 'inboundMessage', { message: { id: 'm1', from: 'ann', text: 'look', attachments } });
    const names = (await use('list')).map(({ name }: { name: string }) => name);
    t.same(names.sort(), ['large.bin', 'plain.txt', 'sent.png']);
  });

  await t.test('lists many files one part after the other', async (t) => {
    await service.pool.query(
      `INSERT INTO installation_storage (installation_id, key, value, size_bytes)
       SELECT $1, 'items/' || n, to_json('photo ' || n)::text, 20 FROM generate_series(1, 200) n`,
      [installationId],
    );
    const ids: string[] = [];
    for (let after: string | undefined = ''; after !== undefined; after = ids.at(-1)) {
      const listed: { id: string }[] = await use('list', { after });
      if (listed.length === 0) break;
      t.ok(listed.length <= 100);
      ids.push(...listed.map(({ id }) => id));
    }
    t.equal(new Set(ids).size, 203);
    t.equal(ids.length, 203);
  });
});

t.test('standup', async (t) => {
  const { installationId } = await service.publish('standup');
  const mine = async () => {
    const { rows } = await service.pool.query("SELECT id FROM agents WHERE name = 'Stand-up'");
    return rows;
  };
  await t.test('makes its agent once', async (t) => {
    await eventually(async () => (await mine()).length === 1);
    t.equal((await service.ann.post(`/installations/${installationId}/rerun-setup`)).status, 202);
    await eventually(async () => {
      const { rows } = await service.pool.query(
        "SELECT id FROM events WHERE installation_id = $1 AND type = 'pluginInstalled' AND state = 'delivered'",
        [installationId],
      );
      return rows.length === 2;
    });
    t.equal((await mine()).length, 1);
  });

  await t.test('writes to it what starts and what is reported', async (t) => {
    const session = await service.session();
    t.equal(await service.tool(session, 'standup__report', { text: 'bread is in the oven' }), 'Reported.');
    const texts = await eventually(async () => {
      const [chat] = await sessionsOf('Stand-up');
      const messages = chat ? await service.transcript(chat.id) : [];
      return messages.length >= 2 && messages;
    });
    t.same(texts.sort(), ['agent-1 started a session.', 'agent-1: bread is in the oven']);
    t.equal((await sessionsOf('Stand-up')).length, 1, 'its own sessions are no news');
  });

  await t.test('makes one agent for reports that come at the same time', async (t) => {
    const session = await service.session();
    // The event of this session also looks for the agent, and handlers share one search: it has to be over.
    await eventually(async () => {
      const { rows } = await service.pool.query(
        "SELECT FROM events WHERE installation_id = $1 AND type = 'sessionStarted' AND state <> 'delivered'",
        [installationId],
      );
      return rows.length === 0;
    });
    const [{ id } = { id: '' }] = await mine();
    t.equal((await service.ann.delete(`/agents/${id}`)).status, 204);
    const reports = ['one', 'two', 'three'].map((text) => service.tool(session, 'standup__report', { text }));
    t.same(await Promise.all(reports), ['Reported.', 'Reported.', 'Reported.']);
    t.equal((await mine()).length, 1);
  });

  await t.test('takes its agent along when it goes', async (t) => {
    t.equal((await service.ann.delete(`/installations/${installationId}`)).status, 204);
    await eventually(async () => (await mine()).length === 0);
    t.same(await sessionsOf('Stand-up'), []);
  });
});

t.test('session-diary', async (t) => {
  await service.publish('session-diary');
  const session = await service.session();
  const diary = async (name: string) =>
    readFile(join(service.dataDir, 'workspaces', (await account()) ?? '', 'diary', name), 'utf8').catch(() => null);
  const createMessage = (role: string, text: string) => ({ role, text });
  await service.call('POST', `/sessions/${session}/messages`, {
    messages: [
      createMessage('user', 'Good morning'),
      createMessage('assistant', 'Good morning, Ann'),
      createMessage('user', 'Bake!'),
    ],
  });

  await t.test('posts a page, and keeps it before it answers', async (t) => {
    const path = `/sessions/${session}/commands/session-diary__write`;
    const written = async () => (await service.call('POST', path, { input: 'a good day' })).body.text;
    t.equal(await eventually(written), 'The page is written.');
    const [page = '', notice] = (await service.transcript(session)).slice(-2);
    t.match(
      page,
      /2 messages of people, 1 of the agent\.\n\nIt began with “Good morning”\.\n\nIt ended with “Bake!”\./,
    );
    t.match(page, /a good day\n$/);
    t.equal(notice, `The diary keeps this page as diary/${session}.md.`);
    t.equal(await diary(`${session}.md`), page);
  });

  await t.test('keeps the page of a chat that is cleared, and a line of one that is deleted', async (t) => {
    t.equal((await service.call('POST', `/sessions/${session}/clear`, { reason: 'too long' })).status, 200);
    t.match(await diary(`${session}.md`), /Cleared: too long/);
    t.same(await service.transcript(session), []);
    await service.call('DELETE', `/sessions/${session}`);
    t.match(await eventually(() => diary(`${session}-deleted.md`)), /^Deleted on 20/);
  });
});
