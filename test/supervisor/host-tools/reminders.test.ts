/** Reminders: what is due comes once, judged, to the agent or to the channel, whatever was down meanwhile. */
import t from 'tap';
import { changeSuspension } from '../../../db/accounts/moderation.ts';
import { saveUsageLimits } from '../../../db/accounts/usage.ts';
import { requireZone } from '../../../supervisor/host-tools/recurrence.ts';
import { RecurrenceClock } from '../../../supervisor/host-tools/recurrence-clock.ts';
import { moveClocks } from '../../fixtures/moved-clocks.ts';
import { eventually } from '../../runner/eventually.ts';
import { soakTest } from '../../runner/soak.ts';
import { connect as connectChannel, deliver } from '../delivery/channels.ts';
import { CrashOnce, refuseNotices, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';
import { startProcess } from '../supervisor-process.ts';

const SCAN_MS = 50;
/** Code that runs at the next step of a name. */
const during = new Map<string, () => Promise<void>>();

/** Fails for reminders that repeat, of the accounts that a test names. */
class FaultyClock extends RecurrenceClock {
  readonly faults = new Map<string, RecurrenceClock['follow']>();

  override follow(...task: Parameters<RecurrenceClock['follow']>): ReturnType<RecurrenceClock['follow']> {
    const [accountId, { repeat }] = task;
    const fault = repeat === null ? undefined : this.faults.get(accountId);
    return fault?.(...task) ?? super.follow(...task);
  }
}
const recurrences = new FaultyClock();

const shared = await startSupervisorFixture(t, {
  reminderScanMs: SCAN_MS,
  recurrences,
  faultPoint: (step) => {
    const happen = during.get(step);
    during.delete(step);
    return happen?.();
  },
});
const PAST_MAX_MS = 60_000;
const HOUR_MS = 3_600_000;

const GUARD = `
  const note = (hook) => (ctx) => {
    const { text, at } = ctx.notify ?? ctx.message;
    host.log('asked', { hook, text, at, trigger: ctx.trigger, id: ctx.notifyId ?? ctx.notify?.id ?? null });
    if (ctx.target) host.log('target', ctx.target);
    if (text === 'refuse ' + hook) ctx.cancel('not this');
    if (text === 'darn ' + hook) return ctx.notify ? { notify: { text: 'dear' } } : { message: { text: 'dear' } };
    if (hook === 'outbound' && text === 'your bread')
      return { message: { attachments: [{ name: 'recipe', mediaType: 'text/plain', url: 'https://example.com/bread' }] } };
    if (hook === 'schedule' && text === 'move') return { notify: { at: '2090-01-01T00:00:00Z' } };
  };
  middleware.notifySchedule = note('schedule');
  middleware.notifyDeliver = note('deliver');
  middleware.inboundMessage = note('inbound');
  middleware.outboundMessage = note('outbound');`;

const startSession = async (fixture: SupervisorFixture): Promise<string> =>
  (await fixture.call('POST', '/sessions', { agentId: 'planner', hostTools: ['notify'] })).body.id;
const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString();

async function transcript(fixture: SupervisorFixture, session: string) {
  const { items } = (await fixture.call('GET', `/sessions/${session}/messages`)).body;
  return items as { id: string; role: string; text: string; data?: Record<string, unknown>; judgement?: object }[];
}

/** Calls the reminders of a session. */
const remindersOf =
  (fixture: SupervisorFixture, session: string) => (method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) =>
    fixture.call(method, `/sessions/${session}/notifications${path}`, body);

t.test('a reminder is judged when it is scheduled and when it is due, and comes once', async (t) => {
  const fixture = shared.withNewAccount();
  await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const session = await startSession(fixture);
  const reminders = remindersOf(fixture, session);
  const now = inMs(0);
  const made = await reminders('POST', '', { id: 'r1', text: 'stand up', at: now, to: 'agent', trigger: 'user' });
  t.match(made, { status: 201, body: { id: 'r1', nextAt: now, zone: 'UTC', lastOutcome: null } });
  await eventually(async () => (await reminders('GET', '/r1')).body.lastOutcome === 'delivered');
  t.match(await transcript(fixture, session), [
    {
      role: 'user',
      text: 'stand up',
      data: { kind: 'reminder', notifyId: 'r1', dueAt: now, to: 'agent' },
      judgement: { hook: 'inboundMessage', asked: 1 },
    },
  ]);
  t.match(await reminders('POST', '', { id: 'r1', text: 'stand up', at: now, to: 'agent', trigger: 'user' }), {
    status: 201,
    body: { nextAt: null },
  });
  t.match(await reminders('POST', '', { id: 'r1', text: 'other', at: now, trigger: 'user' }), { status: 409 });
  const [message] = await transcript(fixture, session);
  const turn = await fixture.call('POST', `/sessions/${session}/turns`, { id: message?.id, trigger: 'schedule' });
  t.match(
    turn.body,
    { state: 'open', message: { text: 'stand up' } },
    'the agent answers it without another judgement',
  );
  t.match(await fixture.readLog('asked'), [
    { hook: 'schedule', trigger: 'user', id: 'r1' },
    { hook: 'deliver', trigger: 'schedule', id: 'r1', at: now },
    { hook: 'inbound', trigger: 'schedule', text: 'stand up' },
  ]);

  t.match(await reminders('POST', '', { text: 'refuse schedule', at: now, trigger: 'user' }), {
    status: 409,
    body: { code: 'cancelled' },
  });
  t.match((await reminders('POST', '', { text: 'move', at: now, trigger: 'user' })).body, {
    nextAt: '2090-01-01T00:00:00.000Z',
  });
  const send = async (text: string, to = 'user') => {
    const { body } = await reminders('POST', '', { text, to, at: inMs(0), trigger: 'user' });
    await eventually(async () => (await reminders('GET', `/${body.id}`)).body.lastOutcome !== null);
    return { ...(await reminders('GET', `/${body.id}`)).body, last: (await transcript(fixture, session)).at(-1) };
  };
  t.match(await send('refuse deliver'), { lastOutcome: 'cancelled', last: { role: 'notice', text: /not this/ } });
  t.match(await send('refuse outbound'), { lastOutcome: 'cancelled', last: { role: 'notice' } });
  t.match(await send('darn deliver'), { lastOutcome: 'delivered', last: { role: 'assistant', text: 'dear' } });
  t.match(await send('darn outbound'), { last: { text: 'dear', judgement: { hook: 'outboundMessage' } } });
  t.match(await send('refuse inbound', 'agent'), { lastOutcome: 'cancelled', last: { role: 'notice' } });
  t.match(await send('darn inbound', 'agent'), { last: { role: 'user', text: 'dear' } });
});

t.test('accounts whose reminders take long make those of others wait only for a place', async (t) => {
  const { promise: released, resolve: release } = Promise.withResolvers<{ nextAt: null; remaining: null; missed: 0 }>();
  const schedule = async (fixture: SupervisorFixture, repeat: string | null) => {
    const session = await startSession(fixture);
    const { rows } = await shared.pool.query<{ id: string }>('SELECT account_id AS id FROM sessions WHERE id = $1', [
      session,
    ]);
    if (repeat !== null) recurrences.faults.set(rows[0]?.id ?? '', () => released);
    const reminders = remindersOf(fixture, session);
    const reminder = { id: 'r1', text: 'stand up', at: inMs(0), to: 'agent', repeat, trigger: 'user' };
    t.equal((await reminders('POST', '', reminder)).status, 201);
    return () => reminders('GET', '/r1');
  };
  await Promise.all(Array.from({ length: 24 }, () => schedule(shared.withNewAccount(), 'FREQ=DAILY')));
  const read = await schedule(shared.withNewAccount(), null);
  await eventually(async () => (await read()).body.lastOutcome === 'delivered');
  release({ nextAt: null, remaining: null, missed: 0 });
});

t.test('a rule that is refused says which part or value is wrong', async (t) => {
  const fixture = shared.withNewAccount();
  const reminders = remindersOf(fixture, await startSession(fixture));
  for (const [repeat, detail] of [
    ['FREQ=DAILY;COUNT=0', 'repeat has a COUNT that is not supported: “0”.'],
    [
      'FREQ=DAILY;UNTIL=2000',
      'repeat has a UNTIL that is not supported: “2000”. It takes a date, such as 20261231, or a time in UTC, such as 20261231T090000Z.',
    ],
    ['FREQ=DAILY;UNTIL=20991231T090000', /UNTIL that is not supported: “20991231T090000”. .* a time in UTC/],
    ['FREQ=DAILY;COUNT=1=2', 'repeat has a COUNT that is not supported: “1=2”.'],
    ['FREQ=DAILY;BYSECOND=1', 'repeat has a part that is not supported: “BYSECOND”.'],
    ['', 'repeat is empty: leave it out for a reminder that comes once.'],
    ['RRULE:', 'repeat is empty: leave it out for a reminder that comes once.'],
  ] as const) {
    const made = await reminders('POST', '', { text: 'x', at: inMs(HOUR_MS), repeat, trigger: 'user' });
    t.match([made.status, made.body.detail], [400, detail], repeat);
  }
});

t.test('a plugin cannot move a reminder into the past', async (t) => {
  const fixture = shared.withNewAccount();
  const code = `middleware.notifySchedule = () => ({ notify: { at: '2020-01-01T00:00:00Z' } });`;
  await fixture.install({ slug: `past-${fixture.account}`, code });
  const reminders = remindersOf(fixture, await startSession(fixture));
  t.match(await reminders('POST', '', { text: 'x', at: inMs(HOUR_MS), trigger: 'user' }), {
    status: 400,
    body: { detail: 'at was moved into the past by a plugin.' },
  });
});

t.test('a reminder with the id of one that was deleted comes too', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await startSession(fixture);
  const reminders = remindersOf(fixture, session);
  for (const text of ['turn it on', 'turn it off']) {
    await reminders('POST', '', { id: 'oven', text, at: inMs(0), to: 'agent', trigger: 'user' });
    await eventually(async () => (await reminders('GET', '/oven')).body.lastOutcome === 'delivered');
    t.equal((await reminders('DELETE', '/oven')).status, 200);
  }
  t.match(await transcript(fixture, session), [{ text: 'turn it on' }, { text: 'turn it off' }]);
});

soakTest(t, 'a reminder comes whose position an earlier one had, as after a restore from a backup', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await startSession(fixture);
  const reminders = remindersOf(fixture, session);
  for (const text of ['turn it on', 'turn it off']) {
    const { body } = await reminders('POST', '', { text, at: inMs(0), to: 'agent', trigger: 'user' });
    await eventually(async () => (await reminders('GET', `/${body.id}`)).body.lastOutcome === 'delivered');
    // A restore continues the numbers after the greatest that is left.
    const { rows } = await fixture.pool.query('DELETE FROM reminders WHERE session_id = $1 RETURNING position', [
      session,
    ]);
    const [{ position }] = rows;
    await fixture.pool.query(`SELECT setval('reminders_position_seq', $1, false)`, [position]);
  }
  t.match(await transcript(fixture, session), [{ text: 'turn it on' }, { text: 'turn it off' }]);
});

t.test('a reminder that is replaced while it is judged does not come, and the new one does in its time', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await startSession(fixture);
  const reminders = remindersOf(fixture, session);
  const schedule = (text: string, at: string) =>
    reminders('POST', '', { id: 'oven', text, at, to: 'agent', trigger: 'user' });
  const at = inMs(HOUR_MS);
  during.set('reminder.due-judged', async () => {
    await reminders('DELETE', '/oven');
    await schedule('new', at);
  });
  const { promise: isOver, resolve } = Promise.withResolvers<void>();
  during.set('reminder.delivered', async () => resolve());
  await schedule('old', inMs(0));
  await isOver;
  t.match((await reminders('GET', '/oven')).body, { text: 'new', nextAt: at, lastOutcome: null });
  t.same(await transcript(fixture, session), []);
});

t.test('a reminder that cannot be added says why', async (t) => {
  const fixture = shared.withNewAccount();
  const [session, deleted] = [await startSession(fixture), await startSession(fixture)];
  const reminder = { id: 'oven', text: 'turn it on', at: inMs(HOUR_MS), to: 'agent', trigger: 'user' };
  const schedule = (to: string, text = reminder.text) => remindersOf(fixture, to)('POST', '', { ...reminder, text });
  during.set('reminder.judged', async () => {
    await fixture.call('DELETE', `/sessions/${deleted}`);
  });
  t.match(await schedule(deleted), { status: 404, body: { code: 'not_found', detail: /no session with this id/ } });

  const first = await schedule(session);
  const other = await startSession(fixture);
  const copy = () =>
    fixture.pool.query(
      `INSERT INTO reminders (session_id, id, account_id, digest, text, recipient, zone, starts_at, next_at, due_at)
       SELECT $2, id, account_id, digest, text, recipient, zone, starts_at, next_at, due_at FROM reminders WHERE session_id = $1`,
      [session, other],
    );
  // As if another supervisor had added it meanwhile.
  during.set('reminder.judged', async () => void (await copy()));
  t.match(await schedule(other), { status: 201, body: { id: 'oven', nextAt: first.body.nextAt } });
  await remindersOf(fixture, other)('DELETE', '/oven');
  during.set('reminder.judged', async () => void (await copy()));
  t.match(await schedule(other, 'turn it off'), { status: 409, body: { code: 'id_reused' } });
});

t.test('through its tools, and cancelled in time', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await startSession(fixture);
  const call = async (name: string, args: object) =>
    (await fixture.call('POST', `/sessions/${session}/tools/${name}`, { arguments: args })).body;
  const at = inMs(HOUR_MS);
  const made = await call('notify__schedule', {
    text: 'bread',
    at,
    repeat: 'FREQ=DAILY;COUNT=3',
    zone: 'Europe/Berlin',
  });
  const { id } = made.content[0].json;
  t.match(made.content[0].json, { repeat: 'FREQ=DAILY', remaining: 3, nextAt: at });
  t.match((await call('notify__list', {})).content[0].json.reminders, [{ id, text: 'bread' }]);
  t.match((await call('notify__cancel', { id })).content[0].json, { cancelled: { id } });
  t.match(await call('notify__cancel', { id }), { isError: true, content: [{ text: /no reminder with this id/ }] });
  t.match(await call('notify__schedule', { text: 'x', at: inMs(-PAST_MAX_MS * 2) }), {
    isError: true,
    content: [{ text: 'at is in the past. Give a time to come.' }],
  });
  t.match(await call('notify__schedule', { text: 'x', at: 'tomorrow' }), { code: 'invalid_arguments' });
});

/** Schedules ten reminders of a new account's session, the first in an hour. */
async function scheduleHourly() {
  const fixture = shared.withNewAccount();
  const session = await startSession(fixture);
  const reminders = remindersOf(fixture, session);
  const repeated = { repeat: 'FREQ=HOURLY;COUNT=10', to: 'agent', trigger: 'user' };
  await reminders('POST', '', { id: 'r1', text: 'water', at: inMs(HOUR_MS), ...repeated });
  return { fixture, session, reminders };
}

t.test('one that repeats comes again; what was missed comes once, and says so', async (t) => {
  const { fixture, session, reminders } = await scheduleHourly();
  // As if the service had been down since then.
  await fixture.pool.query(
    `UPDATE reminders SET starts_at = starts_at - interval '5 hours 30 minutes', next_at = next_at - interval '5 hours 30 minutes',
            due_at = due_at - interval '5 hours 30 minutes' WHERE session_id = $1`,
    [session],
  );
  await eventually(async () => (await reminders('GET', '/r1')).body.lastOutcome === 'delivered');
  const { body } = await reminders('GET', '/r1');
  const left = Date.parse(body.nextAt) - Date.now();
  t.ok(left > 0 && left < HOUR_MS, 'the next time is the next of the rule');
  t.equal(body.remaining, 5, 'what was missed is counted');
  t.match(await transcript(fixture, session), [{ data: { late: true, missed: 4 } }], 'one message');
});

t.test('a repeated one that is over has no time left', async (t) => {
  const fixture = shared.withNewAccount();
  const reminders = remindersOf(fixture, await startSession(fixture));
  const repeated = {
    id: 'last',
    text: 'water',
    at: inMs(0),
    repeat: 'FREQ=DAILY;COUNT=1',
    to: 'agent',
    trigger: 'user',
  };
  t.match((await reminders('POST', '', repeated)).body, { remaining: 1 });
  await eventually(async () => (await reminders('GET', '/last')).body.lastOutcome === 'delivered');
  t.match((await reminders('GET', '/last')).body, { nextAt: null, remaining: 0 });
});

t.test('a supervisor whose clock is ahead takes no time for missed that has not come', async (t) => {
  const { fixture, session, reminders } = await scheduleHourly();
  moveClocks(t).wallMs = 3 * HOUR_MS;
  await fixture.pool.query(
    `UPDATE reminders SET starts_at = now(), next_at = now(), due_at = now() WHERE session_id = $1`,
    [session],
  );
  const delivered = await eventually(async () => {
    const { body } = await reminders('GET', '/r1');
    return body.lastOutcome === 'delivered' && body;
  });
  t.equal(delivered.remaining, 9);
  const [message] = await transcript(fixture, session);
  t.equal(message?.text, 'water');
  t.notOk('late' in (message?.data ?? {}));
});

t.test('a channel gets it as a reply, with the files that plugins add', async (t) => {
  const fixture = shared.withNewAccount();
  const code = `${GUARD}
    channel.receive = ({ bodyText }) => ({ messages: [{ conversationKey: 'c1', from: 'bob', text: bodyText }] });
    channel.send = (message) => { host.log('sent', message); };`;
  const installed = await fixture.install({ slug: `inbox-${fixture.account}`, code });
  const channel = await connectChannel(fixture, installed);
  await deliver(fixture, installed, channel, ['hello']);
  const sessions = async () => (await fixture.call('GET', '/sessions')).body.items;
  await eventually(async () => (await sessions()).length === 1);
  const [{ id: session }] = await sessions();
  await remindersOf(fixture, session)('POST', '', { text: 'your bread', at: inMs(0), to: 'ann', trigger: 'agent' });
  await eventually(async () => (await fixture.readLog('sent')).length === 1);
  t.same(await fixture.readLog('target'), ['c1'], 'plugins judge it for whom it is sent to');
  const attachments = [{ name: 'recipe', mediaType: 'text/plain', url: 'https://example.com/bread' }];
  const sent = await fixture.readLog('sent');
  t.match(sent, [{ conversationKey: 'c1', text: 'your bread', attachments }]);
  t.equal(sent.length, 1);
  t.match((await transcript(fixture, session)).at(-1), { text: 'your bread', data: { kind: 'reminder', attachments } });
});

t.test('while a required plugin does not run, it waits and is not lost', async (t) => {
  const fixture = shared.withNewAccount();
  const broken = await fixture.install({
    slug: `broken-${fixture.account}`,
    code: `middleware.notifyDeliver = () => { throw new Error('x'); };`,
    required: true,
  });
  const session = await startSession(fixture);
  const reminders = remindersOf(fixture, session);
  await reminders('POST', '', { id: 'r1', text: 'a', at: inMs(0), trigger: 'user' });
  const attempts = async () =>
    (await fixture.pool.query('SELECT attempts FROM reminders WHERE session_id = $1', [session])).rows[0].attempts;
  await eventually(async () => (await attempts()) === 1);
  t.match((await reminders('GET', '/r1')).body, { lastOutcome: null });
  const retry = () => fixture.pool.query('UPDATE reminders SET due_at = now() WHERE session_id = $1', [session]);
  await retry();
  await eventually(async () => (await attempts()) === 2);
  t.equal((await transcript(fixture, session)).length, 1, 'one notice');
  await fixture.pool.query(`UPDATE installations SET status = 'paused', updated_at = clock_timestamp() WHERE id = $1`, [
    broken.installationId,
  ]);
  await fixture.notify(broken.installationId);
  await retry();
  await eventually(async () => (await reminders('GET', '/r1')).body.lastOutcome === 'delivered');
});

t.test('while its account is suspended, it waits, because no plugin could judge it', async (t) => {
  const [fixture, other] = [shared.withNewAccount(), shared.withNewAccount()];
  const { installationId } = await fixture.install({ slug: `guard-${fixture.account}`, code: GUARD });
  const [session, calm] = [await startSession(fixture), await startSession(other)];
  const reminders = remindersOf(fixture, session);
  const later = { at: inMs(HOUR_MS), to: 'agent', trigger: 'user' };
  t.equal((await reminders('POST', '', { id: 'r1', text: 'refuse deliver', ...later })).status, 201);
  await changeSuspension(fixture.pool, fixture.account, 'it sends spam');
  await fixture.pool.query(`UPDATE reminders SET due_at = now() - interval '1 minute' WHERE session_id = $1`, [
    session,
  ]);
  await remindersOf(other, calm)('POST', '', { text: 'calm', at: inMs(0), to: 'agent', trigger: 'user' });
  // Both were due when the supervisor looked.
  await eventually(async () => (await transcript(other, calm)).length === 1);
  const { rows } = await fixture.pool.query(
    'SELECT last_outcome AS outcome, attempts FROM reminders WHERE session_id = $1',
    [session],
  );
  t.same(rows, [{ outcome: null, attempts: 0 }]);
  await changeSuspension(fixture.pool, fixture.account, null);
  // It waits until supervisors know that plugins run again, which this one does now.
  await fixture.notify(installationId);
  await fixture.pool.query('UPDATE reminders SET due_at = now() WHERE session_id = $1', [session]);
  const outcome = async () =>
    (await fixture.pool.query('SELECT last_outcome FROM reminders WHERE session_id = $1', [session])).rows[0]
      .last_outcome;
  await eventually(async () => (await outcome()) !== null);
  t.equal(await outcome(), 'cancelled', 'by the plugin that runs again');
});

soakTest(t, 'a flood of one account is spread, and another account does not wait for it', async (t) => {
  const [flood, calm] = [shared.withNewAccount(), shared.withNewAccount()];
  const [flooded, session] = [await startSession(flood), await startSession(calm)];
  await flood.pool.query(
    `INSERT INTO reminders (session_id, id, account_id, digest, text, recipient, zone, starts_at, next_at, due_at)
     SELECT s.id, 'n' || n, s.account_id, '', 'flood', 'agent', 'UTC', now(), now(), now() - interval '1 minute'
       FROM sessions s, generate_series(1, 400) n WHERE s.id = $1
     UNION ALL
     SELECT s.id, 'n', s.account_id, '', 'calm', 'agent', 'UTC', now(), now(), now() FROM sessions s WHERE s.id = $2`,
    [flooded, session],
  );
  await eventually(async () => (await transcript(calm, session)).length === 1);
  const { rows } = await flood.pool.query(
    `SELECT count(*)::int AS delivered FROM session_messages
      WHERE session_id = $1 AND position < (SELECT min(position) FROM session_messages WHERE session_id = $2)`,
    [flooded, session],
  );
  t.ok(rows[0].delivered <= 50, `${rows[0].delivered} of the flood came before`);
  await flood.pool.query('DELETE FROM reminders WHERE session_id = $1', [flooded]);
  await flood.pool.query(
    `INSERT INTO reminders (session_id, id, account_id, digest, text, recipient, zone, starts_at, next_at, due_at)
     SELECT s.id, 'm' || n, s.account_id, '', '', '', 'UTC', now(), now() + interval '1 year', now() + interval '1 year'
       FROM sessions s, generate_series(1, 1000) n WHERE s.id = $1`,
    [flooded],
  );
  const over = await remindersOf(flood, flooded)('POST', '', { text: 'x', at: inMs(HOUR_MS), trigger: 'user' });
  t.match(over, { status: 409, body: { code: 'too_many', detail: /1000 reminders/ } });
});

t.test('hostile rules and zones are refused at once', async (t) => {
  const at = '2026-03-20T09:00:00Z';
  const clock = new RecurrenceClock();
  t.teardown(() => clock.close());
  const read = (rule: string, from = at) => clock.read('ann', rule, from, 'Europe/Berlin');
  const bombs = [
    'FREQ=SECONDLY',
    'FREQ=MINUTELY;INTERVAL=1',
    'FREQ=DAILY;COUNT=1000000000',
    'FREQ=DAILY;COUNT=99999',
    'FREQ=DAILY;INTERVAL=99999999999999999999',
    'FREQ=DAILY;INTERVAL=0',
    'FREQ=YEARLY;INTERVAL=9999',
    'FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30',
    'FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=31',
    'FREQ=DAILY;BYSECOND=1,2,3',
    'FREQ=DAILY;BYMINUTE=0,1,2,3',
    'FREQ=DAILY;FREQ=DAILY',
    'FREQ=DAILY\nEXDATE:20300101',
    'FREQ=DAILY;COUNT=2;UNTIL=20300101',
    'FREQ=DAILY;RSCALE=CHINESE',
    'FREQ=',
    '',
    '__proto__=1;FREQ=DAILY',
    'constructor=1;FREQ=DAILY',
  ];
  for (const rule of bombs) await t.rejects(read(rule), { code: 'bad_request' }, rule);
  // The library would leave out what it does not know: nine o'clock instead of an error.
  for (const part of [
    'BYHOUR=24',
    'BYHOUR=-1',
    'BYMINUTE=60',
    'BYMONTH=13',
    'BYMONTHDAY=0',
    'BYMONTHDAY=-32',
    'BYDAY=54MO',
  ])
    await t.rejects(
      read(`FREQ=YEARLY;${part}`),
      { message: /^repeat has a number that \w+ does not take: -?\d+\.$/ },
      part,
    );
  for (const rule of [
    'FREQ=WEEKLY;BYDAY=2MO',
    'BYDAY=MO,-1FR;FREQ=DAILY',
    'FREQ=HOURLY;BYDAY=+1SU',
    'FREQ=YEARLY;BYWEEKNO=20;BYDAY=2MO',
  ])
    await t.rejects(
      read(rule),
      { message: /^repeat has a number in BYDAY.* FREQ=WEEKLY;INTERVAL=2;BYDAY=MO\.$/ },
      rule,
    );
  for (const rule of [
    'FREQ=MONTHLY;BYDAY=2MO',
    'FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10',
    'FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO',
  ])
    await t.resolves(read(rule), rule);
  for (const zone of [
    '',
    'Nowhere/Land',
    '+01:00',
    'Europe/Berlin\0',
    '../../etc/passwd',
    '[Europe/Berlin]',
    'u-ca=hebrew',
  ])
    t.throws(() => requireZone(zone), { code: 'bad_request' }, zone);
  for (const zone of ['UTC', 'Europe/Berlin', 'America/Argentina/Buenos_Aires', 'Etc/GMT+5']) requireZone(zone);
  const following = async (rule: string, from: string, dueAt: string, now: string, zone = 'Europe/Berlin') => {
    const { rule: repeat, count: remaining } = await read(rule, from);
    const repeated = { repeat, remaining, startsAt: from, zone };
    return (await clock.follow('ann', repeated, dueAt, Date.parse(now))).nextAt;
  };
  const nine = '2026-03-27T08:00:00Z';
  t.equal(
    await following('FREQ=DAILY', nine, '2026-03-28T08:00:00Z', '2026-03-28T08:00:01Z'),
    '2026-03-29T07:00:00.000Z',
    'at nine on the clock of the wall',
  );
  const gap = '2026-03-27T01:30:00Z';
  t.equal(
    await following('FREQ=DAILY', gap, '2026-03-28T01:30:00Z', '2026-03-28T02:00:00Z'),
    '2026-03-30T00:30:00.000Z',
    'half past two does not exist on the 29th',
  );
  const autumn = '2026-10-24T22:30:00Z';
  const twice = [
    '2026-10-24T23:30:00.000Z',
    '2026-10-25T00:30:00.000Z',
    '2026-10-25T01:30:00.000Z',
    '2026-10-25T02:30:00.000Z',
  ];
  for (const rule of [
    'FREQ=HOURLY',
    'UNTIL=20261025T023000Z;FREQ=HOURLY',
    'FREQ=HOURLY;COUNT=9',
    'FREQ=HOURLY;BYMINUTE=30',
  ]) {
    let dueAt = autumn;
    for (const next of twice) {
      t.equal(await following(rule, autumn, dueAt, dueAt), next, `${rule}: the clock shows half past two twice`);
      dueAt = next;
    }
  }
  // Its clock goes back by half an hour at this time.
  const half = '2026-04-04T14:30:00.000Z';
  const minute = await following('FREQ=HOURLY;BYMINUTE=30', half, half, half, 'Australia/Lord_Howe');
  t.equal(minute, '2026-04-04T16:00:00.000Z', 'at half past in local time');
  const untilAt = '2026-10-25T02:30:00.000Z';
  t.equal(await following('FREQ=HOURLY;UNTIL=20261025T023000Z', autumn, untilAt, untilAt), null);
  t.equal(
    await following('FREQ=HOURLY;INTERVAL=3', autumn, '2026-10-25T01:30:00Z', '2026-10-25T01:30:00Z'),
    '2026-10-25T04:30:00.000Z',
  );
  t.equal(
    await following('FREQ=HOURLY;BYHOUR=3', autumn, '2026-10-25T02:30:00Z', '2026-10-25T02:30:00Z'),
    '2026-10-26T02:30:00.000Z',
    'at three on the clock of the wall',
  );
  t.equal(
    await following('FREQ=DAILY;UNTIL=20260328T080000Z', nine, '2026-03-28T08:00:00Z', '2026-03-28T08:00:01Z'),
    null,
  );
  t.equal(
    await following('FREQ=DAILY', nine, nine, '2036-01-01T00:00:00Z'),
    '2036-01-01T08:00:00.000Z',
    'ten years later',
  );
  t.equal(await following('FREQ=DAILY;COUNT=1', nine, nine, nine), null);
  const last = '9999-12-30T23:30:00Z';
  t.equal(await following('FREQ=DAILY', last, last, last), '9999-12-31T23:30:00.000Z');
  const end = '9999-12-31T23:30:00Z';
  t.equal(await following('FREQ=DAILY', end, end, end), null, 'no answer could name the year 10000');
});

// No January has 366 hours before ten, and the library tries a thousand of them.
const HOURS = Array.from({ length: 10 }, (_, hour) => hour).join(',');
const SLOW = `FREQ=YEARLY;BYMONTH=1;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=${HOURS};BYSETPOS=366`;

/** Schedules a reminder that repeats, and a later one that does not, of an account whose clock fails. */
async function scheduleBeforeFault(fault: RecurrenceClock['follow']) {
  const fixture = shared.withNewAccount();
  const session = await startSession(fixture);
  const reminders = remindersOf(fixture, session);
  const { rows } = await fixture.pool.query('SELECT account_id AS id FROM sessions WHERE id = $1', [session]);
  recurrences.faults.set(rows[0].id, fault);
  const reader = { to: 'agent', trigger: 'user' };
  const at = inMs(HOUR_MS);
  await reminders('POST', '', { id: 'repeated', text: 'water', at, repeat: 'FREQ=HOURLY', ...reader });
  await reminders('POST', '', { id: 'once', text: 'bread', at: inMs(2 * HOUR_MS), ...reader });
  const set = (columns: string, id = 'repeated') =>
    fixture.pool.query(`UPDATE reminders SET ${columns} WHERE session_id = $1 AND id = $2`, [session, id]);
  return {
    at,
    set,
    reminders,
    /** Both are due. */
    release: async () => {
      await set(`due_at = now() - interval '1 second'`);
      await set('due_at = now()', 'once');
      await eventually(async () => (await reminders('GET', '/once')).body.lastOutcome === 'delivered');
    },
    session,
    repair: () => recurrences.faults.delete(rows[0].id),
    show: async () => (await reminders('GET', '/repeated')).body,
    attempts: async () =>
      (await fixture.pool.query(`SELECT attempts FROM reminders WHERE session_id = $1 AND id = 'repeated'`, [session]))
        .rows[0].attempts,
    transcript: () => transcript(fixture, session),
  };
}

soakTest(t, 'a reminder whose next time takes too many steps ends with a notice', async (t) => {
  const clock = new RecurrenceClock();
  t.teardown(() => clock.close());
  const start = '2026-11-30T09:00:00Z';
  const { rule, count } = await clock.read('ann', 'FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;COUNT=3', start, 'UTC');
  const repeated = { repeat: rule, startsAt: start, zone: 'UTC', remaining: count };
  const follow = (dueAt: string, remaining: number | null) =>
    clock.follow('ann', { ...repeated, remaining }, dueAt, Date.parse(dueAt));
  t.same(await follow(start, 3), { nextAt: '2028-02-29T09:00:00.000Z', remaining: 2, missed: 0 });
  t.same(await follow('2028-02-29T09:00:00Z', 2), { nextAt: null, remaining: 2, missed: 0, isLost: true });
  t.same(await follow('2028-02-29T09:00:00Z', 1), { nextAt: null, remaining: 1, missed: 0 }, 'the last of a COUNT');

  const one = await scheduleBeforeFault((accountId, { zone }) =>
    clock.follow(accountId, { ...repeated, zone, remaining: null }, '2028-02-29T09:00:00Z', 0),
  );
  await one.release();
  t.match(await one.show(), { nextAt: null, lastOutcome: 'delivered' });
  t.match(await one.transcript(), [
    { role: 'user', text: 'water' },
    {
      role: 'notice',
      text: /has ended: its rule comes true too rarely/,
      data: { kind: 'reminder_failed', notifyId: 'repeated' },
    },
    { role: 'user', text: 'bread' },
  ]);

  const lost = await scheduleBeforeFault(async (_, { remaining }) => {
    return { nextAt: null, remaining, missed: 0, isLost: true };
  });
  during.set('reminder.due-judged', () => Promise.reject(new Error('a fault of the service')));
  await lost.set('attempts = 11, due_at = now()');
  await eventually(async () => (await lost.show()).lastOutcome === 'failed');
  t.match(await lost.transcript(), [{ text: /internal error.* has ended: its rule comes true too rarely/ }]);
});

soakTest(t, 'a reminder whose next time is computed too slowly once repeats all the same', async (t) => {
  const hasty = new RecurrenceClock({ followMs: 50 });
  t.teardown(() => hasty.close());
  const one = await scheduleBeforeFault((accountId, repeated, ...rest) =>
    hasty.follow(accountId, { ...repeated, repeat: SLOW }, ...rest),
  );
  await one.release();
  t.match(await one.show(), { nextAt: one.at, lastOutcome: null });
  t.match(await one.transcript(), [{ text: 'bread' }], 'it keeps no other reminder of the account back');
  t.equal(await one.attempts(), 1);
  one.repair();
  await one.set('due_at = now()');
  await eventually(async () => (await one.show()).lastOutcome === 'delivered');
  t.equal((await one.show()).nextAt, new Date(Date.parse(one.at) + HOUR_MS).toISOString());
});

t.test('a reminder whose next time is never computed ends after the last attempt, with a notice', async (t) => {
  const one = await scheduleBeforeFault(() => Promise.reject(new Error('the thread ended')));
  await one.release();
  t.match(await one.show(), { nextAt: one.at, lastOutcome: null });
  t.equal(await one.attempts(), 1);
  await one.set('attempts = 11, due_at = now()');
  await eventually(async () => (await one.show()).lastOutcome === 'failed');
  t.equal((await one.show()).nextAt, null);
  await eventually(async () => (await one.transcript()).length === 2);
  const notice = { role: 'notice', data: { kind: 'reminder_failed', notifyId: 'repeated' } };
  t.match((await one.transcript()).at(-1), { ...notice, text: /next time could not be computed/ });
});

soakTest(t, 'a reminder is not given up without its notice, unless the account has no room for it', async (t) => {
  let calls = 0;
  const fail = () => {
    calls += 1;
    return Promise.reject(new Error('the thread ended'));
  };
  const one = await scheduleBeforeFault(fail);
  await refuseNotices(shared, one.session);
  await one.set('attempts = 11, due_at = now()');
  await eventually(async () => calls > 1);
  t.match(await one.show(), { nextAt: one.at, lastOutcome: null }, 'while the notice cannot be written');
  await shared.pool.query('DROP TRIGGER refuse_notice ON session_messages');
  await eventually(async () => (await one.show()).lastOutcome === 'failed');
  t.match(await one.transcript(), [{ role: 'notice', data: { kind: 'reminder_failed' } }]);

  const full = await scheduleBeforeFault(fail);
  t.teardown(() => saveUsageLimits(shared.pool, {}));
  await saveUsageLimits(shared.pool, { transcripts: 1 });
  await full.set('attempts = 11, due_at = now()');
  await eventually(async () => (await full.show()).lastOutcome === 'failed');
  t.same(await full.transcript(), []);
});

t.test('an error in the middle of a reminder postpones that one, and no other of the account', async (t) => {
  const fixture = shared.withNewAccount();
  const session = await startSession(fixture);
  const reminders = remindersOf(fixture, session);
  const outcome = async (id: string) => (await reminders('GET', `/${id}`)).body.lastOutcome;
  const set = (columns: string) =>
    fixture.pool.query(`UPDATE reminders SET ${columns} WHERE session_id = $1 AND id = 'bad'`, [session]);
  const fail = () => Promise.reject(new Error('a fault of the service'));
  for (const [id, repeat] of [
    ['bad', 'FREQ=DAILY'],
    ['good', null],
  ] as const)
    await reminders('POST', '', { id, text: id, at: inMs(HOUR_MS), repeat, to: 'agent', trigger: 'user' });
  during.set('reminder.due-judged', fail);
  await fixture.pool.query(
    `UPDATE reminders SET due_at = now() - interval '1 second' * (id = 'bad')::int WHERE session_id = $1`,
    [session],
  );
  await eventually(async () => (await outcome('good')) === 'delivered');
  const { rows } = await fixture.pool.query(
    `SELECT attempts, due_at > now() AS waits FROM reminders WHERE session_id = $1 AND id = 'bad'`,
    [session],
  );
  t.same(rows, [{ attempts: 1, waits: true }]);
  await set('due_at = now()');
  await eventually(async () => (await outcome('bad')) === 'delivered');
  const delivered = [{ text: 'good' }, { text: 'bad' }];
  t.match(await transcript(fixture, session), delivered, 'each once');

  during.set('reminder.due-judged', fail);
  await set('attempts = 11, due_at = now()');
  await eventually(async () => (await outcome('bad')) === 'failed');
  const notice = { role: 'notice', text: /because of an internal error/, data: { kind: 'reminder_failed' } };
  t.match(await transcript(fixture, session), [...delivered, notice], 'after the last attempt');
  t.ok(Date.parse((await reminders('GET', '/bad')).body.nextAt) > Date.now() + 48 * HOUR_MS, 'the next time comes');
});

t.test('a rule that takes half a minute to compute delays nobody', async (t) => {
  const hasty = new RecurrenceClock({ readMs: 50 });
  t.teardown(() => hasty.close());
  await t.rejects(hasty.read('ann', SLOW, inMs(0), 'Europe/Berlin'), { message: /comes true too rarely/ });
  const patient = new RecurrenceClock();
  t.teardown(() => patient.close());
  t.match(await patient.read('bob', 'FREQ=DAILY', inMs(0), 'Europe/Berlin'), { rule: 'FREQ=DAILY' });
});

t.test('a reminder whose delivery was committed before a crash comes once', async (t) => {
  const crash = new CrashOnce();
  const fixture = await startSupervisorFixture(t, { faultPoint: crash.faultPoint, reminderScanMs: SCAN_MS });
  const session = await startSession(fixture);
  const reminders = remindersOf(fixture, session);
  crash.next = 'reminder.delivered';
  await reminders('POST', '', { id: 'last', text: 'last', at: inMs(0), to: 'agent', trigger: 'user' });
  await eventually(async () => (await reminders('GET', '/last')).body.lastOutcome === 'delivered');
  // What another connection reads is committed a moment before the supervisor hears of it.
  await eventually(async () => crash.next === '');
  t.match(await transcript(fixture, session), [{ text: 'last' }]);
});

soakTest(t, 'a supervisor that is killed in the middle delivers each once', async (t) => {
  const fixture = await startSupervisorFixture(t);
  const session = await startSession(fixture);
  await fixture.supervisor.stop();
  await fixture.pool.query(
    `INSERT INTO reminders (session_id, id, account_id, digest, text, recipient, zone, starts_at, next_at, due_at)
     SELECT s.id, 'k' || n, s.account_id, '', 'k' || n, 'agent', 'UTC', now(), now(), now() FROM sessions s, generate_series(1, 20) n WHERE s.id = $1`,
    [session],
  );
  const count = async () =>
    (await fixture.pool.query(`SELECT text FROM session_messages WHERE text LIKE 'k%'`)).rows.map(({ text }) => text);
  // Reminders are delivered one after the other, and this one waits. Otherwise all could be delivered before the kill.
  const holder = await fixture.pool.connect();
  await holder.query('BEGIN');
  await holder.query(`SELECT 1 FROM reminders WHERE session_id = $1 AND id = 'k10' FOR UPDATE`, [session]);
  const killed = await startProcess(t, fixture);
  await eventually(async () => (await count()).length > 0);
  await killed.kill();
  await holder.query('ROLLBACK');
  holder.release();
  t.ok((await count()).length < 20, 'it was killed in the middle');
  const next = await startProcess(t, fixture);
  await eventually(async () => (await count()).length >= 20);
  const texts = await count();
  t.equal(new Set(texts).size, texts.length, 'each once');
  await next.stop();
});
