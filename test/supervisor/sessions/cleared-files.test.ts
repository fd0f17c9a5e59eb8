/** Files of messages whose session is cleared between the judgement and the message. */
import t from 'tap';
import { eventually } from '../../runner/eventually.ts';
import { connect, deliver } from '../delivery/channels.ts';
import {
  DuringSteps,
  type SupervisorFixture,
  startSupervisorFixture,
  withStartedPlugins,
} from '../supervisor-fixture.ts';

const during = new DuringSteps();
const shared = withStartedPlugins(await startSupervisorFixture(t, { faultPoint: during.faultPoint }));

const SLOW = `
  let open;
  const opened = new Promise((resolve) => { open = resolve; });
  tools.open = { description: 'x', parameters: { type: 'object' }, handler: () => { open(); return 'open'; } };
  middleware.inboundMessage = async () => { host.log('judging'); await opened; };`;

async function startSession() {
  const fixture = shared.withNewAccount();
  return useSession(fixture, await fixture.session());
}

function useSession(fixture: SupervisorFixture, session: string) {
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

/** The text of each message is the id of a file, which a plugin attaches. */
const ATTACH = `
  const attach = ({ message }) => ({ message: { attachments: [{ name: 'x', mediaType: 'text/plain', mediaId: message.text }] } });
  middleware.inboundMessage = attach;
  middleware.outboundMessage = attach;`;
const describeTool = (code: string) =>
  `{ description: 'x', parameters: { type: 'object' }, handler: ({ text }) => ${code} }`;
const SENDER = `
  tools.post = ${describeTool('host.session.post(text)')};
  tools.send = ${describeTool(`host.agents.send('agent-1', text)`)};`;

t.test('messages without a turn are added without the files that plugins attached, if these go before', async (t) => {
  const { fixture, session, path, put, clear, listMessages } = await startSession();
  const slug = `sender-${fixture.account}`;
  await fixture.install({ slug, capabilities: ['host.session', 'host.agents'], code: SENDER });
  await fixture.install({ slug: `attach-${fixture.account}`, code: ATTACH });
  const callTool = async (name: string, text: string) => {
    const { status } = await fixture.call('POST', `${path}/tools/${slug}__${name}`, { arguments: { text } });
    t.equal(status, 200);
  };
  const sendMail = async (text: string) => {
    const mail = { id: 'm1', toAgentId: 'agent-1', toSessionId: session, text, trigger: 'agent' };
    t.equal((await fixture.call('POST', `${path}/mail`, mail)).status, 200);
  };
  const remind = async (text: string) => {
    const reminder = { text, at: new Date(Date.now() - 1_000).toISOString(), to: 'user', trigger: 'user' };
    t.equal((await fixture.call('POST', `${path}/notifications`, reminder)).status, 201);
  };
  const ways = [
    { step: 'message.judged', send: (text: string) => callTool('post', text) },
    { step: 'message.judged', send: (text: string) => callTool('send', text) },
    { step: 'mail.judged', send: sendMail },
    { step: 'reminder.due-judged', send: remind },
  ];
  for (const { step, send } of ways) {
    const mediaId = await put();
    during.set(step, clear);
    await send(mediaId);
    const messages = await eventually(async () => {
      const found = await listMessages();
      return found.length > 0 && found;
    });
    t.match(messages, [{ text: mediaId }]);
    t.same(messages[0].data.attachments, [], step);
    await clear();
  }
});

const DESK = `
  channel.receive = ({ bodyText }) => ({
    messages: [{ conversationKey: 'k', from: 'v', text: 'hello', attachments: [{ name: 'x', mediaType: 'text/plain', mediaId: bodyText }] }],
  });
  channel.send = (message) => host.log('sent', message);`;

t.test('files of a channel’s conversation that go before its messages are added', async (t) => {
  const fixture = shared.withNewAccount();
  const desk = await fixture.install({ slug: `desk-${fixture.account}`, code: DESK });
  const channel = await connect(fixture, desk);
  await deliver(fixture, desk, channel, ['no file']);
  const session = await eventually(async () => (await fixture.call('GET', '/sessions')).body.items[0]?.id);
  const { put, clear, listMessages } = useSession(fixture, session);
  await eventually(async () => (await listMessages()).length === 1);

  const received = await put();
  during.set('message.judged', clear);
  await deliver(fixture, desk, channel, [received]);
  await eventually(async () => (await fixture.call('GET', `/media/${received}`)).status === 404);
  await eventually(async () => (await listMessages()).length === 1);
  const [message] = await listMessages();
  t.same(message.data.attachments, [], 'the message is added without its file');

  const mediaId = await put();
  const attachments = [{ name: 'x', mediaType: 'text/plain', mediaId }];
  during.set('reply.guarded', clear);
  t.match(await fixture.call('POST', `/sessions/${session}/replies`, { text: 'look', attachments }), REFUSED);
  t.same(await listMessages(), [], 'a reply is refused');
});
