/** Pictures and files of users in turns: kept with the session, judged with the message, in the prompt as they were judged. */
import t from 'tap';
import { holdMedia } from '../../../db/accounts/media.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { startSupervisorFixture, withStartedPlugins } from '../supervisor-fixture.ts';

const PNG = Buffer.concat([
  Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex'),
  Buffer.alloc(8),
]);
const GUARD = `middleware.inboundMessage = async (ctx) => {
  const { attachments } = ctx.message;
  host.log('asked', { types: attachments.map(({ mediaType }) => mediaType) });
  if (attachments.some(({ name }) => name === 'virus')) ctx.cancel('no such files');
  if (attachments.some(({ name }) => name === 'face')) {
    const { id, mediaType } = await host.media.put(new TextEncoder().encode('blurred'));
    return { message: { attachments: [{ name: 'blurred', mediaType, mediaId: id }] } };
  }
};`;

t.test('attachments of turns', async (t) => {
  const fixture = withStartedPlugins(await startSupervisorFixture(t, { mediaQuota: { bytes: 4 * MIB, files: 20 } }));
  await fixture.install({ slug: 'guard', capabilities: ['host.media'], code: GUARD });
  const session = await fixture.session();
  const path = `/sessions/${session}`;
  const put = (content: Buffer | string, name?: string, at = path, by = fixture) =>
    by.call('POST', `${at}/media`, { data: Buffer.from(content).toString('base64'), ...(name ? { name } : {}) });
  const open = (id: string, attachments: object[], at = path, by = fixture) =>
    by.call('POST', `${at}/turns`, { id, text: 'What is this?', attachments, trigger: 'user' });
  const readPrompt = async (id: string) => (await fixture.call('GET', `${path}/turns/${id}/prompt`)).body.messages;
  const picture = await put(PNG, 'cat.png');
  t.match(picture, { status: 201, body: { mediaType: 'image/png', sizeBytes: PNG.byteLength, name: 'cat.png' } });
  t.equal(picture.headers.location, `/media/${picture.body.id}`);

  await t.test('are judged with the message, and come in the prompt with the type of their bytes', async (t) => {
    const claimed = { name: 'cat.png', mediaType: 'text/html', mediaId: picture.body.id };
    const kept = { ...claimed, mediaType: 'image/png' };
    t.match((await open('t1', [claimed])).body, { action: 'continue', message: { attachments: [kept] } });
    t.match((await open('t1', [claimed])).body, { action: 'continue' }, 'again under its id');
    t.match(await open('t1', []), { status: 409, body: { code: 'id_reused' } });
    t.match((await readPrompt('t1')).at(-1), { text: 'What is this?', data: { attachments: [kept] } });
    t.match((await fixture.call('GET', `${path}/messages`)).body.items.at(-1), { data: { attachments: [kept] } });
    await fixture.supervisor.logs.flush();
    const { rows } = await fixture.pool.query(`SELECT data FROM plugin_logs WHERE message = 'asked'`);
    t.same(rows, [{ data: { types: ['image/png'] } }], 'plugins see the type too, once');
  });

  await t.test('are found, but not held, for a session that was deleted meanwhile', async (t) => {
    const { rows } = await fixture.pool.query('SELECT account_id AS "accountId" FROM sessions WHERE id = $1', [
      session,
    ]);
    const gone = { ...rows[0], sessionId: 'gone' };
    t.match(await holdMedia(fixture.pool, gone, [picture.body.id]), [{ id: picture.body.id }]);
  });

  await t.test('are refused for a session that another supervisor has deleted', async (t) => {
    const deleted = await fixture.session();
    await fixture.pool.query('DELETE FROM sessions WHERE id = $1', [deleted]);
    const refused = await put('text', 'a.txt', `/sessions/${deleted}`);
    t.match(refused, { status: 404, body: { code: 'not_found', detail: /no session with this id/ } });
  });

  await t.test('are replaced and cancelled by plugins', async (t) => {
    const face = await put('a face', 'face');
    const opened = await open('t2', [{ name: 'face', mediaType: 'text/plain', mediaId: face.body.id }]);
    const [blurred] = opened.body.message.attachments;
    t.match(blurred, { name: 'blurred', mediaType: 'text/plain' });
    t.match((await readPrompt('t2')).at(-1).data.attachments, [blurred]);
    const bytes = await fixture.app.inject({
      url: `/media/${blurred.mediaId}`,
      headers: { authorization: `Bearer ${await fixture.issuer.issue(fixture.account)}` },
    });
    t.equal(bytes.body, 'blurred');
    const vetoed = await open('t3', [{ name: 'virus', mediaType: 'text/plain', mediaId: face.body.id }]);
    t.match(vetoed.body, { action: 'cancel', reason: 'no such files', message: null });
  });

  await t.test('of a message that was in the transcript before are judged, too, whatever its data holds', async (t) => {
    const face = await put('a face', 'face');
    const attachments = [{ name: 'face', mediaType: 'text/plain', mediaId: face.body.id }];
    const data = { source: 'import', from: 'bob', attachments };
    const malformed = { from: { name: 'bob' }, attachments: 'face' };
    const messages = [
      { id: 't4', role: 'user', text: 'Who is this?', data },
      { id: 't5', role: 'user', text: 'And this?', data: malformed },
    ];
    t.equal((await fixture.call('POST', `${path}/messages`, { messages })).status, 200);
    const openKnown = (id: string) => fixture.call('POST', `${path}/turns`, { id, trigger: 'user' });
    const blurred = [{ name: 'blurred', mediaType: 'text/plain', mediaId: String }];
    t.match(await openKnown('t4'), { status: 201, body: { message: { from: 'bob', attachments: blurred } } });
    t.match((await readPrompt('t4')).at(-2), { id: 't4', data: { ...data, attachments: blurred } });
    t.match(await openKnown('t5'), { status: 201, body: { message: { from: 'user', attachments: [] } } });
    t.match(await fixture.call('GET', `${path}/turns/t5`), {
      status: 200,
      body: { turn: { message: { from: 'user' } } },
    });
    t.match((await readPrompt('t5')).at(-1), { id: 't5', data: { attachments: [] } });
  });

  await t.test('of the agent have the type of their bytes, too, and are files that it has', async (t) => {
    await open('t6', []);
    const claimed = { name: 'cat.png', mediaType: 'text/html', mediaId: picture.body.id };
    const say = (id: string, attachments: object[]) =>
      fixture.call('POST', `${path}/turns/t6/output`, { id, text: 'A cat.', attachments });
    t.equal((await say('o1', [claimed])).status, 200);
    t.equal((await say('o1', [claimed])).status, 200, 'again under its id');
    t.match((await fixture.call('GET', `${path}/messages`)).body.items.at(-1), {
      role: 'assistant',
      data: { attachments: [{ ...claimed, mediaType: 'image/png' }] },
    });
    t.match(await say('o2', [{ ...claimed, mediaId: 'nothing' }]), {
      status: 400,
      body: { errors: [{ field: 'attachments.0.mediaId' }] },
    });
    const unsaid = { status: 400, body: { errors: [{ field: 'text', message: /must not be empty/ }] } };
    const files = { attachments: [claimed] };
    t.match(await fixture.call('POST', `${path}/turns/t6/output`, { text: '', ...files }), unsaid, 'without a text');
    const only = { piece: 0, text: '', done: true, ...files };
    t.match(await fixture.call('POST', `${path}/turns/t6/output`, only), unsaid, 'as the only piece');
    t.match(await fixture.call('POST', `${path}/turns/t6/end`, files), unsaid);
    t.equal((await fixture.call('POST', `${path}/turns/t6/output`, { id: 'o3', text: '' })).status, 200);
    const pieces = { id: 'o4', piece: 0, text: 'Another cat.' };
    t.equal((await fixture.call('POST', `${path}/turns/t6/output`, pieces)).status, 200);
    const last = { id: 'o4', piece: 1, text: '', done: true, ...files };
    t.match((await fixture.call('POST', `${path}/turns/t6/output`, last)).body, { state: 'passed' });
    t.match((await fixture.call('GET', `${path}/messages`)).body.items.at(-1), { text: 'Another cat.' });
  });

  await t.test(
    'that a plugin adds have the type of their bytes for the next plugin, and are files that the account has',
    async (t) => {
      const other = fixture.withNewAccount();
      const theirs = `/sessions/${await other.session()}`;
      const { id: mediaId } = (await put(PNG, 'cat.png', theirs, other)).body;
      const claimed = { name: 'notes.txt', mediaType: 'text/plain', mediaId };
      const added = [claimed, { ...claimed, mediaId: 'nothing' }];
      const replaceFiles = `async (ctx) => ({ message: { text: 'changed', attachments: ${JSON.stringify(added)} } })`;
      const logFiles = `async (ctx) => host.log('files', { files: ctx.message.attachments })`;
      for (const [slug, handler] of Object.entries({ adder: replaceFiles, reader: logFiles }))
        await other.install({
          slug,
          code: `middleware.inboundMessage = ${handler};\nmiddleware.outboundMessage = ${handler};`,
        });
      const held = [{ ...claimed, mediaType: 'image/png' }];
      t.match((await open('t1', [], theirs, other)).body, { message: { text: 'changed', attachments: held } });
      const said = await other.call('POST', `${theirs}/turns/t1/output`, { id: 'o1', text: 'Hello', attachments: [] });
      t.equal(said.status, 200);
      t.match((await other.call('GET', `${theirs}/messages`)).body.items.at(-1), { data: { attachments: held } });
      const message = { id: 'm1', from: 'ann', text: 'Hello', attachments: [claimed] };
      const hook = await other.call('POST', `${theirs}/hooks/inboundMessage`, { context: { message } });
      t.match(hook.body, { context: { message: { attachments: held } } }, 'also in a hook that a runtime runs');
      await fixture.supervisor.logs.flush();
      const { rows } = await fixture.pool.query(`SELECT data FROM plugin_logs WHERE message = 'files' ORDER BY id`);
      t.same(rows, Array(3).fill({ data: { files: held } }));
    },
  );

  await t.test('are files of the account, within its limits', async (t) => {
    const other = fixture.withNewAccount();
    const theirs = `/sessions/${await other.session()}`;
    const [{ id }] = [picture.body];
    for (const mediaId of [id, 'nothing'])
      t.match(
        await other.call('POST', `${theirs}/turns`, {
          id: 'x',
          text: 'x',
          trigger: 'user',
          attachments: [{ name: 'x', mediaType: 'x/y', mediaId }],
        }),
        {
          status: 400,
          body: { errors: [{ field: 'attachments.0.mediaId' }] },
        },
      );
    t.equal((await other.call('GET', `/media/${id}`)).status, 404);
    t.equal(
      (await other.call('POST', `${path}/media`, { data: '' })).status,
      404,
      'nor in a session of another account',
    );
    t.match(await put(Buffer.alloc(2 * MIB + 1)), { status: 413, body: { code: 'too_large' } });
    t.equal((await fixture.call('POST', `${path}/media`, { data: 'no base64!' })).status, 400);
    t.match(await put(Buffer.alloc(2 * MIB, 1)), { status: 201 });
    t.match(await put(Buffer.alloc(2 * MIB, 2)), {
      status: 409,
      body: { code: 'too_many', detail: /4194304 bytes in 20/ },
    });
    const { body } = await fixture.call('GET', `/sessions`);
    t.ok(body.items.length > 0);
  });

  await t.test('are never shown by a browser: SVG and HTML are downloads that run nothing', async (t) => {
    for (const content of [
      '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
      '<!doctype html><script>alert(1)</script>',
    ]) {
      const { body } = await put(content, 'x"\r\n.svg'.slice(0, 2));
      const answer = await fixture.call('GET', `/media/${body.id}`);
      t.match(answer.headers, {
        'content-disposition': /^attachment;/,
        'content-security-policy': "default-src 'none'; sandbox",
        'x-content-type-options': 'nosniff',
      });
    }
  });

  await t.test('go with the session that holds them, unless another or a plugin holds them', async (t) => {
    const elsewhere = `/sessions/${await fixture.session()}`;
    const shared = (await put('shared')).body.id;
    t.ok(shared);
    t.equal((await put('shared', undefined, elsewhere)).body.id, shared, 'equal bytes have the same id');
    const own = (await put('own')).body.id;
    t.equal((await fixture.call('POST', `${path}/clear`, { trigger: 'user', reason: 'x', by: 'x' })).status, 200);
    const exists = async (id: string) => (await fixture.call('GET', `/media/${id}`)).status === 200;
    t.same([await exists(own), await exists(shared)], [false, true]);
    t.equal((await fixture.call('DELETE', elsewhere)).status, 204);
    t.notOk(await exists(shared));
    const { rows } = await fixture.pool.query(
      `SELECT count(*)::int AS files FROM media WHERE account_id = $1 AND name IS DISTINCT FROM 'blurred'`,
      [fixture.account],
    );
    t.ok(rows[0].files <= 1, 'what the plugin holds stays');
  });
});
