/** The fixture of a scenario: its own session, its own scripted model, and the runtime. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ensure, expect, Mismatch, Skipped } from '../expect.ts';
import type { LogLine } from '../log-watch.ts';
import { findOffered, type ModelAnswer, type ModelCall, type ModelRequest } from './fake-model.ts';
import type { RuntimeFixture } from './runtime-fixture.ts';
import type { Answer, Exchange, RuntimeProcess, UserMessage } from './runtime-process.ts';
import { within } from './runtime-process.ts';
import type { Fault, FaultKind } from './session-proxy.ts';

interface MessageOptions {
  readonly id?: string;
  readonly trigger?: UserMessage['trigger'];
  readonly by?: RuntimeProcess;
  readonly session?: string;
}
interface Held extends MessageOptions {
  readonly text?: string;
  /** What the model answers after the held answer. */
  readonly next?: readonly string[];
}
interface TranscriptLine {
  readonly id: string;
  readonly role: string;
  readonly text: string;
}

/** Requests that break, and requests that are refused, while the service is replaced. */
const REPLACED_TIMES = 2;
/** How long a runtime is watched for what it still does after an answer. Milliseconds. */
const QUIET_MS = 300;
/** Advice for a scenario that replaces the service. */
export const REPEAT_ENOUGH = `Up to ${2 * REPLACED_TIMES} requests in a row fail here. Wait as long as \`Retry-After\` says.`;

export class Scene {
  readonly fixture: RuntimeFixture;
  readonly sessionId: string;
  /** In each message of the scenario: tells its model's requests apart. */
  readonly mark: string;
  #requests: readonly ModelRequest[] = [];
  #messages = 0;
  /** Of the scenario, also in sessions of other agents. */
  readonly #exchanges: Exchange[];
  readonly #processes: RuntimeProcess[] = [];
  readonly #faults = new Map<Readonly<Fault>, string>();

  private constructor(fixture: RuntimeFixture, sessionId: string, mark: string, exchanges: Exchange[]) {
    this.fixture = fixture;
    this.sessionId = sessionId;
    this.mark = mark;
    this.#exchanges = exchanges;
  }

  static async open(fixture: RuntimeFixture, agentId = 'baker', exchanges: Exchange[] = []): Promise<Scene> {
    const sessionId = await fixture.run.newSession(agentId);
    return new Scene(fixture, sessionId, `case-${fixture.run.nextNumber()}`, exchanges);
  }

  /** Opens a scene in a session of an agent that a plugin treats specially. */
  withAgent(agentId: string): Promise<Scene> {
    return Scene.open(this.fixture, agentId, this.#exchanges);
  }

  /** Sets what the model answers, in order; the last answer stays. */
  script(...answers: readonly (ModelAnswer | string)[]): this {
    const full = answers.map((answer) => (typeof answer === 'string' ? { deltas: cutWords(answer) } : answer));
    this.#requests = this.fixture.model.play(this.mark, full);
    return this;
  }

  /** The requests to the scenario's model. */
  get asked(): readonly ModelRequest[] {
    return this.#requests;
  }

  /** The name of a tool of the kit. */
  tool(name: string): string {
    return `${this.fixture.judge.slug}__${name}`;
  }

  /** Whether the model was offered a tool of the kit. */
  isOffered(name: string): boolean {
    const [first] = this.asked;
    return first?.tools.includes(findOffered(first, this.tool(name))) === true;
  }

  call(name: string, args: object = {}, id = `call_${randomUUID().slice(0, 8)}`): ModelCall {
    return { id, name: this.tool(name), arguments: args };
  }

  /** Gives the runtime a message. It does not wait for the answer. */
  begin(
    text: string,
    { id, trigger = 'user', by = this.fixture.runtime(), session = this.sessionId }: MessageOptions = {},
  ): Exchange {
    this.#messages += 1;
    const message = {
      session,
      id: id ?? `${this.mark}-m${this.#messages}`,
      from: 'ann',
      text: `${text} (${this.mark})`,
      trigger,
    };
    const exchange = by.send(message);
    this.#exchanges.push(exchange);
    return exchange;
  }

  /** Gives the runtime a message and waits for the end of the answer. */
  say(text: string, options: MessageOptions = {}): Promise<Answer> {
    return this.begin(text, options).waitForAnswer();
  }

  /** Begins a message whose answer the model holds, before or after its first delta, until `finish` is called. */
  async holdAnswer(
    at: 'before' | 'afterFirst',
    deltas: readonly string[],
    { text = 'hello', next = [], ...options }: Held = {},
  ): Promise<{ exchange: Exchange; finish: () => void }> {
    const { promise, resolve: finish } = Promise.withResolvers<void>();
    const exchange = this.script({ deltas, [at]: promise }, ...next).begin(text, options);
    await this.untilAsked();
    return { exchange, finish };
  }

  abort(exchange: Exchange): void {
    this.fixture.runtime().abort(exchange);
  }

  /** Starts a process of the runtime for this scenario alone. @param name of the runtime: another one holds other turns */
  start(name = `${this.mark}-runtime`): RuntimeProcess {
    const process = this.fixture.startRuntime(name);
    this.#processes.push(process);
    return process;
  }

  untilAsked(times = 1): Promise<void> {
    return within(`request ${times} to the model`, this.fixture.model.untilAsked(this.mark, times));
  }

  /** Breaks the next requests of this session to the session API. @param path below the session, without a query */
  break(kind: FaultKind, method: string, path: string, times = 1): void {
    const wanted = this.#matchRequest(method, path);
    const shown = `${method} …${path}`.replaceAll(/\[\^\/]\+|\.\*/g, '…');
    this.#faults.set(this.fixture.proxy.break(kind, wanted, times), shown);
  }

  /** Breaks the connections of the requests of this session that have no answer yet. */
  drop(method: string, path: string): void {
    if (this.fixture.proxy.drop(this.#matchRequest(method, path)) === 0)
      throw new Skipped('the runtime had no request open that could be broken');
  }

  #matchRequest(method: string, path: string): RegExp {
    return new RegExp(`^${method} /sessions/${this.sessionId}${path}$`);
  }

  /** The service is replaced: the next requests of the session do not reach it, and those after them are refused. */
  replaceService(): void {
    this.break('cut', 'POST', '/turns/.*', REPLACED_TIMES);
    this.break('refuse', 'POST', '/turns/.*', REPLACED_TIMES);
  }

  /** Whether the service has refused the content of a request of this session. */
  get isRefused(): boolean {
    return this.fixture.proxy.hasRefused(this.sessionId);
  }

  /** Skips the scenario if requests that it was to break did not come: nothing has failed then. */
  requireFaults(): void {
    for (const [{ times }, request] of this.#faults)
      if (times > 0) throw new Skipped(`the runtime sent no ${request} that could be broken`);
  }

  /** Lets time pass for this session. */
  async letPass(seconds: number): Promise<void> {
    const { clock } = this.fixture;
    if (clock === null) throw new Skipped('the clock of this service cannot be set: see docs/conform-runtime.md');
    await clock.advance(this.sessionId, seconds);
  }

  async transcript(): Promise<TranscriptLine[]> {
    const { own } = this.fixture.run;
    const path = `/sessions/${this.sessionId}/messages?limit=200`;
    return (await own.need(own.session('GET', path))).items;
  }

  /** Texts of one role. */
  async texts(role: string): Promise<string[]> {
    const lines = (await this.transcript()).filter((line) => line.role === role);
    return lines.map(({ text }) => text.replaceAll(` (${this.mark})`, ''));
  }

  /** The state of each turn, oldest first. */
  async turns(): Promise<string[]> {
    const { own } = this.fixture.run;
    const { items } = await own.need(own.session('GET', `/sessions/${this.sessionId}/turns`));
    return items.map(({ state }: { state: string }) => state);
  }

  /** How often the judge has logged a message for this session. */
  async count(message: string): Promise<number> {
    await this.fixture.readLogs();
    const { lines } = this.fixture.judge.watch;
    return lines.filter((line) => line.message === message && line.sessionId === this.sessionId).length;
  }

  /** @param by the plugin of the kit that writes it */
  untilLogged(message: string, by: 'judge' | 'guard' = 'judge'): Promise<LogLine> {
    const { watch } = this.fixture[by];
    return watch.find(message, (line) => line.message === message && line.sessionId === this.sessionId);
  }

  /** Compares the given fields with what the service recorded. @throws Mismatch at the first difference */
  async requireRecord(wanted: {
    readonly judgements?: number;
    readonly user?: readonly string[];
    readonly agent?: readonly string[];
    readonly turns?: readonly string[];
  }): Promise<void> {
    const [user, agent] = [await this.texts('user'), await this.texts('assistant')];
    const recorded = { judgements: await this.count('inbound'), user, agent, turns: await this.turns() };
    expect(recorded, wanted, 'the record');
  }

  /** The next message of the session is answered: the scenario has left nothing behind. */
  async goesOn(): Promise<void> {
    this.script('It goes on.');
    const { text, end } = await this.say('and now?');
    if (text !== 'It goes on.') throw new Mismatch(`the next message was answered with ${describe({ text, end })}`);
  }

  /** Skips the scenario for a runtime that waits for the whole answer. */
  requireStreaming(): void {
    const [first] = this.asked;
    if (first && !first.isStreamed) throw new Skipped('the runtime does not stream');
  }

  /** @throws Mismatch if a user saw text after the end of an answer */
  async requireQuiet(): Promise<void> {
    await sleep(QUIET_MS);
    for (const { lateText, message } of this.#exchanges)
      ensure(lateText === '', `after the end of the answer to “${message.text}”, the user saw “${lateText}”`);
  }

  /** @throws Mismatch if the model was asked, also after the hook that a user's stop has interrupted is over */
  async requireNeverAsked(hook: 'inbound' | 'prompt'): Promise<void> {
    const isOver = ({ message, data }: LogLine): boolean =>
      (message === `aborted ${hook}` || message === `waited ${hook}`) && data?.sessionId === this.sessionId;
    await this.fixture.judge.watch.find(`the end of ${hook}`, isOver);
    await sleep(QUIET_MS);
    expect(this.asked.length, 0, 'requests to the model');
  }

  /** @throws Mismatch if a request of the scenario to the model has the words in its address or a header */
  requireHeadsWithout(words: string): void {
    const found = this.fixture.model.listRequests(this.mark).some(({ head }) => head.includes(words));
    ensure(!found, `a request to the model had “${words}” in its address or a header`);
  }

  /** @throws Mismatch if the model got the words in any request of the scenario */
  requireUnasked(words: string): void {
    const found = this.fixture.model.listRequests(this.mark).find(({ text }) => text.includes(words));
    ensure(!found, `the model got “${words}”: ${found?.text.slice(0, 300)}`);
  }

  async close(): Promise<void> {
    await Promise.all(this.#processes.map((process) => process.kill()));
  }
}

/** As a model writes: a word at a time. */
export const cutWords = (text: string): string[] => text.match(/\S*\s*/g)?.filter((part) => part !== '') ?? [];

export const describe = ({ text, end }: Answer): string =>
  `“${text}”, and the end ${end.kind}${end.reason === '' ? '' : ` (${end.reason})`}`;

/** @throws Mismatch unless the user saw exactly this */
export function requireAnswer(answer: Answer, text: string): void {
  ensure(answer.end.kind === 'done' && answer.text === text, `the user saw ${describe(answer)}, and not “${text}”`);
}

/** @throws Mismatch unless the answer failed with the plugin's reason, and nothing was shown */
export function requireVeto(answer: Answer, reason: string): void {
  ensure(answer.end.kind === 'failed', `the answer did not fail: the user saw ${describe(answer)}`);
  ensure(answer.text === '', `the user saw ${describe(answer)}`);
  ensure(answer.end.reason.includes(reason), `the user was not told the reason “${reason}”: ${describe(answer)}`);
}
