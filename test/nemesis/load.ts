/** The load of one account: callers of a counter, vendors of its channels, sessions, and messages to its guard. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../runner/random.ts';
import type { Ledger } from '../storm/ledger.ts';
import type { Member } from './member.ts';
import { AGENT_PREFIX, FORBIDDEN, MARK } from './plugins.ts';
import type { Accepted, CounterCall, GuardCall, Reply } from './records.ts';

/** Longer than any call takes, also one that waits for a move of its account. Milliseconds. */
const PATIENCE_MS = 60_000;
/** Pauses after an answer, and after a failure. Milliseconds. */
const PAUSE_MS = { counter: 40, channel: 80, session: 700, guard: 120, failed: 100 };
/** A channel with so many under way gets no more: the faults are measured, not a backlog. */
const UNDER_WAY_MAX = 50;

export interface AccountLoad {
  readonly name: string;
  readonly token: string;
  readonly workerSlug: string;
  readonly routingIds: readonly string[];
}
export interface LoadRecords {
  readonly webhooks: Ledger;
  readonly events: Ledger;
  readonly counters: CounterCall[];
  readonly guards: GuardCall[];
  readonly accepted: Accepted[];
}
interface LoadOptions {
  readonly account: AccountLoad;
  readonly supervisors: readonly Member[];
  readonly apis: readonly Member[];
  readonly records: LoadRecords;
  readonly random: Random;
  readonly counterCallers: number;
  readonly over: AbortSignal;
}
interface Answer extends Reply {
  // biome-ignore lint/suspicious/noExplicitAny: bodies of any operation
  readonly body: any;
}
const NO_ANSWER: Answer = { status: 0, hasRetryAfter: false, message: 'no answer in time', body: {} };

/** Runs until `over`; what is under way then is answered first. */
export async function runLoad(options: LoadOptions): Promise<void> {
  const { account, counterCallers } = options;
  await Promise.all([
    ...Array.from({ length: counterCallers }, () => countUntilOver(options)),
    ...account.routingIds.map((routingId) => deliverUntilOver(options, routingId)),
    openSessionsUntilOver(options),
    askGuardUntilOver(options),
  ]);
}

/** Chooses a ready member at random, as a load balancer does. Null: no member is ready. */
function chooseMember(members: readonly Member[], random: Random): Member | null {
  const reachable = members.filter(({ isReady }) => isReady);
  return reachable.length === 0 ? null : random.pick(reachable);
}

/** @returns null: no answer came, because the process that was asked ended or is out of reach */
async function post(
  { account, random }: LoadOptions,
  members: readonly Member[],
  path: string,
  body: string | object,
): Promise<(Answer & { readonly member: Member }) | null> {
  const member = chooseMember(members, random);
  if (member === null) return null;
  const isText = typeof body === 'string';
  const { gone } = member;
  try {
    const answer = await fetch(`${member.url}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${account.token}`,
        'content-type': isText ? 'text/plain' : 'application/json',
      },
      body: isText ? body : JSON.stringify(body),
      signal: AbortSignal.any([gone, AbortSignal.timeout(PATIENCE_MS)]),
    });
    const { status, headers } = answer;
    const json = await answer.json();
    return { member, status, hasRetryAfter: headers.has('retry-after'), message: json.detail ?? '', body: json };
  } catch (error) {
    const isLate = error instanceof DOMException && error.name === 'TimeoutError' && !gone.aborted;
    return isLate ? { member, ...NO_ANSWER } : null;
  }
}

const readClock = (): number => performance.timeOrigin + performance.now();

const pause = (ms: number, over: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { signal: over }).catch(() => undefined);

/** Opens a session, again until it is open. Null: the load is over. */
async function openSession(options: LoadOptions): Promise<string | null> {
  while (!options.over.aborted) {
    const answer = await post(options, options.supervisors, '/sessions', { agentId: 'caller' });
    if (answer?.status === 201) return answer.body.id;
    await pause(PAUSE_MS.failed, options.over);
  }
  return null;
}

async function countUntilOver(options: LoadOptions): Promise<void> {
  const { account, supervisors, records, over } = options;
  const session = await openSession(options);
  while (!over.aborted) {
    const startedAt = readClock();
    const path = `/sessions/${session}/commands/${account.workerSlug}__count`;
    const answer = await post(options, supervisors, path, { input: '{}' });
    const count = answer?.status === 200 ? Number(answer.body.text) : Number.NaN;
    const isGood = Number.isInteger(count);
    records.counters.push({
      account: account.name,
      startedAt,
      endedAt: readClock(),
      count: isGood ? count : null,
      reply: answer && { status: answer.status, hasRetryAfter: answer.hasRetryAfter, message: answer.message },
    });
    await pause(isGood ? PAUSE_MS.counter : PAUSE_MS.failed, over);
  }
}

async function deliverUntilOver(options: LoadOptions, routingId: string): Promise<void> {
  const { apis, records, over } = options;
  for (let place = 0; !over.aborted; ) {
    if (records.webhooks.missing(routingId) >= UNDER_WAY_MAX) {
      await pause(PAUSE_MS.channel, over);
      continue;
    }
    const answer = await post(options, apis, `/webhook/plugin/${routingId}`, `${routingId} ${place}`);
    const isGood = answer?.status === 200;
    if (isGood) {
      const { id } = answer.body;
      records.webhooks.acknowledge({ id, queue: routingId, place });
      records.accepted.push({ id, acceptedBy: answer.member.name, at: Date.now() });
    }
    place += 1;
    await pause(isGood ? PAUSE_MS.channel : PAUSE_MS.failed, over);
  }
}

async function openSessionsUntilOver(options: LoadOptions): Promise<void> {
  const { account, supervisors, records, over } = options;
  for (let place = 0; !over.aborted; place += 1) {
    const answer = await post(options, supervisors, '/sessions', { agentId: `${AGENT_PREFIX}${place}` });
    if (answer?.status === 201)
      records.events.acknowledge({ id: answer.body.id, queue: `events of ${account.name}`, place });
    await pause(PAUSE_MS.session, over);
  }
}

async function askGuardUntilOver(options: LoadOptions): Promise<void> {
  const { supervisors, records, random, over } = options;
  const session = await openSession(options);
  for (let place = 0; !over.aborted; place += 1) {
    const isForbidden = random.integer(0, 2) === 0;
    const text = `message ${place} ${isForbidden ? FORBIDDEN : 'plain'}`;
    const message = { id: `m${place}`, from: 'ann', text, attachments: [] };
    const answer = await post(options, supervisors, `/sessions/${session}/hooks/inboundMessage`, {
      context: { message },
    });
    const isGood = answer?.status === 200;
    records.guards.push({
      isForbidden,
      action: isGood ? answer.body.action : null,
      isMarked: isGood && answer.body.context.message.text.endsWith(MARK),
    });
    await pause(PAUSE_MS.guard, over);
  }
}
