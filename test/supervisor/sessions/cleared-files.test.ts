/** Files of messages whose session is cleared between the judgement and the message. */
import t from 'tap';
import { eventually } from '../../runner/eventually.ts';
import { DuringSteps, startSupervisorFixture } from '../supervisor-fixture.ts';

const during = new DuringSteps();
const shared = await startSupervisorFixture(t, { faultPoint: during.faultPoint });

const SLOW = `
  let open;
  const opened = new Promise((resolve) => { open = resolve; });
  tools.open = { description: 'x', parameters: { type: 'object' }, handler: () => { open(); return 'open'; } };
  middleware.inboundMessage = async () => { host.log('judging'); await opened; };`;

async function startSession() {
  const fixture = shared.withNewAccount();
  const session = await fixture.session();
  const path = `/sessions/${session}`;
  const put = async (at = path): Promise<string> => {
    const { body } = await fixture.call('POST', `${at}/media`, { data: Buffer.from('a file').toString('base64') });
    return body.id;
  };
  const clear = async (): Promise<void> => {
    const { status } = await fixture.call('POST', `${path}/clear`, { trigger: 'user', reason: 'x', by: 'x' });
    t.equal(status, 200);
  };
  const open = (mediaId: string) => {
    const attachments = [{ name: 'x', mediaType: 'text/plain', mediaId }];
    return fixture.call('POST', `${path}/turns`, { id: 't1', text: 'What is this?', attachments, trigger: 'user' });
  };
  const listMessages = async () => (await fixture.call('GET', `${path}/messages`)).body.items;
  return { fixture, session, path, put, clear, open, listMessages };
}

const REFUSED = {
  status: 400,
  body: { errors: [{ field: 'attachments.0.mediaId', message: /upload the file first/ }] },
};

t.test('a turn is refused if its file goes after the judgement', async (t) => {
  const { put, clear, open, listMessages } = await startSession();
  const mediaId = await put();
  during.set('turn.judged', clear);
  t.match(await open(mediaId), REFUSED);
  t.same(await listMessages(), []);
  t.match(await open(await put()), { status: 201, body: { message: { attachments: [{ mediaId }] } } });
});

t.test('a turn is refused if its file goes while plugins judge it', async (t) => {
  const { fixture, session, put, clear, open, listMessages } = await startSession();
  const slug = `slow-${fixture.account}`;
  await fixture.install({ slug, code: SLOW });
  const opening = open(await put());
  await eventually(async () => (await fixture.readLog('judging')).length === 1);
  await clear();
  await fixture.call('POST', `/sessions/${session}/tools/${slug}__open`, { arguments: {} });
  t.match(await opening, REFUSED);
  t.same(await listMessages(), []);
});

t.test('a turn keeps a file that another session held while its own was cleared', async (t) => {
  const { fixture, put, clear, open } = await startSession();
  const other = `/sessions/${await fixture.session()}`;
  await put(other);
  const mediaId = await put();
  during.set('turn.judged', clear);
  t.match(await open(mediaId), { status: 201, body: { message: { attachments: [{ mediaId }] } } });
  t.equal((await fixture.call('DELETE', other)).status, 204);
  t.equal((await fixture.call('GET', `/media/${mediaId}`)).status, 200);
});
