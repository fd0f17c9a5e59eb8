/** The examples that are hooks: to-dos, notifications, and a count of messages. */
import t from 'tap';
import { quietUntil } from '../../examples/quiet-hours/quiet.ts';
import { eventually } from '../runner/eventually.ts';
import { startPlugin } from '../supervisor/supervisor-fixture.ts';
import { startExamplesFixture } from './examples-fixture.ts';

const service = await startExamplesFixture(t);
const DAY_MS = 24 * 60 * 60_000;

t.test('tool-guard', async (t) => {
  await service.publish('tool-guard', { refuse: 'shop__buy, files__*' });
  const session = await service.session();
  const judge = (name: string) => service.hook(session, 'toolCall', { call: { id: 'c1', name, arguments: {} } });
  for (const name of ['shop__buy', 'files__read'])
    t.match(await judge(name), { action: 'cancel', reason: `The tool ${name} may not be used here.` });
  t.match(await judge('shop__look'), { action: 'continue' });
  const key = 'AKIAIOSFODNN7EXAMPLE';
  const json = { stdout: `AWS: ${key}.`, [key]: [1, null, { unused: [`${key}\n`] }], exitCode: 0 };
  const image = { type: 'image', data: 'aGk=', mimeType: 'image/png' };
  const content = [{ type: 'text', text: `AWS: ${key}.` }, { type: 'json', json }, image];
  const result = { content, isError: false };
  const shown = { call: { id: 'c1', name: 'shop__look', arguments: {} }, result, durationMs: 1 };
  t.same((await service.hook(session, 'toolResult', shown)).context.result.content, [
    { type: 'text', text: 'AWS: [key].' },
    { type: 'json', json: { stdout: 'AWS: [key].', '[key]': [1, null, { unused: ['[key]\n'] }], exitCode: 0 } },
    image,
  ]);
});

t.test('todo-policy', async (t) => {
  const policy = await service.publish('todo-policy', { dueInDays: '3' });
  const session = await service.session();
  const todo = { title: 'Bake', notes: '', dueAt: null, assigneeAgentId: null };
  const dueIn = async (fields: object = {}) => {
    const { context } = await service.hook(session, 'todoCreate', { todo: { ...todo, ...fields } });
    return (Date.parse(context.todo.dueAt) - Date.now()) / DAY_MS;
  };

  await t.test('gives a to-do without a due date one', async (t) => {
    t.match(Math.round(await dueIn()), 3);
    t.match(Math.round(await dueIn({ dueAt: new Date(Date.now() + DAY_MS).toISOString() })), 1, 'others keep theirs');
    await service.configure(policy.installationId, { dueInDays: 'soon' });
    await eventually(async () => Math.round(await dueIn()) === 7);
  });

  await t.test('lets a due date move into the future only, and not go away', async (t) => {
    const before = { ...todo, id: 't1', done: false, dueAt: '2099-01-01T00:00:00.000Z' };
    const change = (changes: object) => service.hook(session, 'todoUpdate', { before, changes });
    t.same((await change({ title: 'Bake bread' })).context.changes, { title: 'Bake bread' });
    t.match(await change({ dueAt: '2001-01-01T00:00:00.000Z' }), { action: 'cancel', cancelledBy: 'todo-policy' });
    t.match(await change({ dueAt: '2098-01-01T00:00:00.000Z' }), { action: 'continue' });
    const off = await change({ title: 'Bake bread', dueAt: null });
    t.same(off.context.changes, { title: 'Bake bread', dueAt: before.dueAt });
  });

  await t.test('refuses to complete to-dos with open boxes, and to delete those of another agent', async (t) => {
    const complete = (notes: string) =>
      service.hook(session, 'todoComplete', { todo: { ...todo, id: 't1', done: false, notes }, by: 'agent-1' });
    t.match(await complete('- [x] flour\n- [ ] yeast'), {
      action: 'cancel',
      reason: /“Bake” is not done: 1 .* is open/,
    });
    t.match(await complete('- [x] flour'), { action: 'continue' });
    const remove = (assigneeAgentId: string | null) =>
      service.hook(session, 'todoDelete', { todo: { ...todo, id: 't1', done: false, assigneeAgentId } });
    t.match(await remove('agent-2'), { action: 'cancel', reason: /not agent-1's to delete/ });
    t.match(await remove('agent-1'), { action: 'continue' });
    t.match(await remove(null), { action: 'continue' });
    t.match((await service.transcript(session)).at(-1), /To-do policy cancelled the operation: “Bake”/);
  });
});

t.test('quiet-hours', async (t) => {
  const hours = await service.publish('quiet-hours', { utcOffset: '+02:00' });
  const session = await service.session();
  const schedule = async (at: string, text = 'Tea') => {
    const notify = { text, at, repeat: null, to: 'ann' };
    return (await service.hook(session, 'notifySchedule', { notify })).context.notify.at;
  };
  const deliver = (text: string) => service.hook(session, 'notifyDeliver', { notify: { id: 'n1', text, to: 'ann' } });

  await t.test('move what is scheduled for the night to the morning', async (t) => {
    t.equal(await schedule('2030-01-01T21:30:00.000Z'), '2030-01-02T05:00:00.000Z');
    t.equal(await schedule('2030-01-01T19:59:00.000Z'), '2030-01-01T19:59:00.000Z');
    t.equal(await schedule('2030-01-01T21:30:00.000Z', 'URGENT: fire'), '2030-01-01T21:30:00.000Z');
  });

  await t.test('stop what comes up in them', async (t) => {
    const inHours = (count: number) => new Date(Date.now() + count * 60 * 60_000).toISOString().slice(11, 16);
    await service.configure(hours.installationId, { from: inHours(-2), to: inHours(2), utcOffset: '+00:00' });
    await eventually(async () => (await deliver('Tea')).action === 'cancel');
    t.match(await deliver('urgent: Tea'), { action: 'continue' });
    await service.configure(hours.installationId, { from: inHours(2), to: inHours(4) });
    await eventually(async () => (await deliver('Tea')).action === 'continue');
  });

  await t.test('are what their settings say, and none where those make no sense', async (t) => {
    const until = (at: string, settings: Record<string, string>) => {
      const end = quietUntil(Date.parse(at), { utcOffset: '+00:00', ...settings });
      return end === null ? null : new Date(end).toISOString();
    };
    const night = { from: '22:00', to: '07:00' };
    t.equal(until('2030-01-01T22:00:00Z', night), '2030-01-02T07:00:00.000Z');
    t.equal(until('2030-01-01T06:59:59Z', night), '2030-01-01T07:00:00.000Z');
    t.equal(until('2030-01-01T07:00:00Z', night), null);
    t.equal(until('1969-12-31T23:00:00Z', night), '1970-01-01T07:00:00.000Z');
    t.equal(until('2030-01-01T01:00:00Z', { ...night, utcOffset: '-05:30' }), null);
    t.equal(until('2030-01-01T04:00:00Z', { ...night, utcOffset: '-05:30' }), '2030-01-01T12:30:00.000Z');
    t.equal(until('2030-01-01T13:30:00Z', { from: '13:00', to: '14:00' }), '2030-01-01T14:00:00.000Z');
    for (const wrong of [{ from: '22' }, { to: '' }, { utcOffset: 'CET' }, { from: '08:00', to: '08:00' }])
      t.equal(until('2030-01-01T23:00:00Z', { ...night, ...wrong }), null);
  });
});

t.test('counter', async (t) => {
  const { installationId } = await service.publish('counter');
  const [one, other] = [await service.session(), await service.session()];
  const sendMessage = (session: string, text: string) =>
    service.hook(session, 'inboundMessage', { message: { id: text, from: 'ann', text, attachments: [] } });
  await sendMessage(other, 'first');

  await t.test('misses no message of many at once', async (t) => {
    await Promise.all(Array.from({ length: 20 }, (_, at) => sendMessage(one, `message ${at}`)));
    t.same(await service.tool(one, 'counter__read'), { here: 20, all: 21, sessions: 2 });
  });

  await t.test('counts a message once that another plugin changes', async (t) => {
    await service.change({ installationId }, 'required = true');
    const code = "middleware.inboundMessage = ({ message }) => ({ message: { text: message.text + '!' } });";
    // The counter would count again when the message is sent again because the other plugin starts late.
    await startPlugin(service, await service.install({ slug: 'changer', code }));
    const slugs = (await sendMessage(one, 'loud')).trace.map(({ slug }: { slug: string }) => slug);
    t.same(slugs, ['counter', 'changer', 'counter']);
    t.match(await service.tool(one, 'counter__read'), { here: 21, all: 22 });
  });

  await t.test('forgets sessions that are deleted', async (t) => {
    t.equal((await service.call('DELETE', `/sessions/${one}`)).status, 204);
    const left = () => service.tool(other, 'counter__read');
    t.ok(await eventually(async () => (await left()).sessions === 1));
    t.same(await left(), { here: 1, all: 1, sessions: 1 });
  });
});
