/** Runs probes in jailed children: many in one child, and in a new one where a probe has ended or spoiled the last. */
import type { Test } from 'tap';
import { hostExamples } from '../../../sdk/contract/host-examples.ts';
import type { HostCallName } from '../../../sdk/contract/protocol.ts';
import type { HostCall } from '../../../supervisor/children/child.ts';
import type { Outcome } from '../../../supervisor/children/child-calls.ts';
import { HostCallRefusal } from '../../../supervisor/children/child-errors.ts';
import type { Jail } from '../../../supervisor/jail/jail.ts';
import { bundleOf, callTool, type TestChild, testChild } from '../../supervisor/children/jailed-child.ts';
import type { Goal } from './groups.ts';
import { PRELUDE, type Probe } from './probe.ts';

/** Every probe gives up on its own within half a second; the rest is for a busy machine. Milliseconds. */
const PROBE_MS = 1_200;
/** Time limit of an exhausting call, and the time after which it was certainly not ended. Milliseconds. */
const EXHAUST_MS = 100;
const EXHAUST_MAX_MS = 3_000;
/** A load that never ends is ended after this. Milliseconds. */
const LOAD_MS = 600;
/** In an open realm the first look makes Node load what its globals stand for: half a second on a busy machine. */
const FIRST_LOOK_MS = 10_000;
/** Ids that the harness gives to its calls; another one is foreign. */
const OWN_ID = /^call-\d+$/;
/** A first argument for which the harness refuses a host call. */
/** The calls behind the bodies of `fetch`. */
const BODY_CALL = /^http\.(open|read|close)Body$/;
const REFUSED = /^(?:https:\/\/)?refuse/;
/** The reason of a child that was ended for what it sent. */
const BREAKS_PROTOCOL = /protocol/;
/** One tool that runs code it is given, so that many probes share a child. */
const EVALUATOR = `tools.run = { description: 'test', parameters: {}, handler: (args, ctx) => (0, eval)(args.code)(ctx) };`;
/** State that a probe may have changed for the next one, compared with that of a new child. */
const INTACT = `
  // Node makes some of its globals at the first look.
  for (const key of Reflect.ownKeys(globalThis)) { try { globalThis[key]; } catch {} }
  const looked = [globalThis, Object, Object.prototype, Array.prototype, Function.prototype, Promise, Promise.prototype,
    Error, TypeError, JSON, Map.prototype, WeakMap.prototype, Reflect, String.prototype, RegExp.prototype, Symbol, Math];
  const state = looked.map((o) => [Object.getPrototypeOf(o), ...Reflect.ownKeys(o).filter((k) => k !== 'kept_').map((k) => {
    const d = Reflect.getOwnPropertyDescriptor(o, k);
    return [k, d.get ?? d.value, d.set];
  }).flat()]);
  const kept = globalThis.kept_ ??= state;
  return kept.every((list, i) => list.length === state[i].length && list.every((v, j) => Object.is(v, state[i][j])));
`;

export class Attacker {
  readonly #test: Test;
  readonly #jail: Jail;
  readonly #values: Readonly<Record<string, string>>;
  readonly #members: string[];
  readonly #foreign: string[] = [];
  /** How children broke the protocol: with the realm up, no plugin can. */
  readonly #broken: string[] = [];
  #child: TestChild | null = null;

  /** @param members the granted host calls; each is answered with its example */
  constructor(test: Test, jail: Jail, values: Readonly<Record<string, string>>, members: readonly string[]) {
    this.#test = test;
    this.#jail = jail;
    this.#values = values;
    this.#members = [...members];
  }

  /** A description of what a probe reached. Null if it was stopped. */
  async attack(goal: Goal, probe: Probe): Promise<string | null> {
    if (goal === 'exhaust') return this.#exhaust(probe);
    if (goal === 'register') return this.#register(probe);
    const found = goal === 'forge' ? await this.#forge(probe) : await this.run(probe.code);
    const reached = found !== null && (probe.counts?.test(found) ?? true) ? found : null;
    // Behind the realm a probe does not get to Node or to the wire, which it would spoil for the next one.
    const isSpoilt = probe.alone && (reached !== null || this.#values.realm !== 'true');
    if (isSpoilt || !(await this.#isIntact())) await this.#drop();
    return reached ?? this.#findForged();
  }

  /** The result of code. Null if it was stopped: by an exception, by its death, or by having nothing to say. */
  async run(code: string, budgetMs: number = PROBE_MS): Promise<string | null> {
    const outcome = await this.#call(await this.#ready(), code, budgetMs);
    const answer = outcome?.outcome === 'answered' ? outcome.answer : undefined;
    return answer === undefined || answer === '' || answer === null || answer === false ? null : words(answer);
  }

  async #call(child: TestChild, code: string, budgetMs: number, prelude = PRELUDE): Promise<Outcome | null> {
    const body = code.replace(/\$(\w+)/g, (name, key) => this.#values[key] ?? name);
    try {
      return await callTool(child, 'run', { code: `(async function (ctx) { ${prelude} ${body} })` }, budgetMs);
    } catch {
      return null;
    }
  }

  async #exhaust(probe: Probe): Promise<string | null> {
    const child = await this.#unspoilt();
    const started = performance.now();
    await this.#call(child, probe.code, EXHAUST_MS, '');
    const took = performance.now() - started;
    await this.#drop();
    return took < EXHAUST_MAX_MS ? null : `it ran for ${took.toFixed(0)} ms`;
  }

  async #forge(probe: Probe): Promise<string | null> {
    const child = await this.#ready();
    await this.#call(child, probe.code, PROBE_MS);
    const next = child.state === 'loaded' ? await this.#call(child, `return 'sane';`, LOAD_MS, '') : null;
    return next?.outcome === 'answered' && next.answer !== 'sane'
      ? `the next call answered ${words(next.answer)}`
      : null;
  }

  /** A description of messages that the program of the child never sends. Raw Node may break the protocol. */
  #findForged(): string | null {
    const foreign = this.#foreign.splice(0);
    const broken = this.#broken.splice(0);
    if (foreign.length > 0) return `a host call spoke for ${foreign.join()}`;
    return broken.length > 0 && this.#values.realm === 'true' ? broken.join() : null;
  }

  async #register(probe: Probe): Promise<string | null> {
    const child = this.#spawn();
    try {
      const expected = await this.#recorded();
      await child.load(bundleOf(`${EVALUATOR}\n${probe.code}`, { expected, members: this.#members }), LOAD_MS);
      await callTool(child, 'run', { code: '(async () => { await null; await null; })' }, LOAD_MS);
      const outcome = await callTool(child, 'late', {}, LOAD_MS);
      return outcome.outcome === 'answered' ? words(outcome.answer) : null;
    } catch {
      return null;
    } finally {
      await child.kill('the next probe');
    }
  }

  /** The registrations of the evaluator alone, as a publish would have recorded them. */
  async #recorded() {
    recorded ??= (async () => {
      const child = this.#spawn();
      const { registrations } = await child.load(bundleOf(EVALUATOR));
      await child.kill('it was looked at');
      return registrations;
    })();
    return recorded;
  }

  async #isIntact(budgetMs: number = LOAD_MS): Promise<boolean> {
    if (this.#child?.state !== 'loaded') return false;
    const outcome = await this.#call(this.#child, INTACT, budgetMs, '');
    return outcome?.outcome === 'answered' && outcome.answer === true;
  }

  #spawn(): TestChild {
    return testChild(this.#test, this.#jail, {
      onHostCall: (call) => this.#answer(call),
      onLog: () => undefined,
      onExit: ({ reason }) => {
        if (BREAKS_PROTOCOL.test(reason)) this.#broken.push(reason);
      },
    });
  }

  async #answer({ member, args, invocationId }: HostCall): Promise<unknown> {
    if (invocationId !== null && !OWN_ID.test(invocationId)) this.#foreign.push(invocationId);
    const name = BODY_CALL.test(member) ? 'http.fetch' : member;
    if (!this.#members.includes(name)) this.#foreign.push(member);
    if (args.some((arg) => REFUSED.test(String(arg))))
      throw new HostCallRefusal('failed', 'the host refuses this call');
    if (member === 'http.readBody') return { bytes: new Uint8Array([1, 2]), isEnd: true };
    const { result } = hostExamples[name as HostCallName] ?? {};
    return member === 'http.openBody' ? { ...(result as object), isOpen: true } : result;
  }

  async #ready(): Promise<TestChild> {
    if (this.#child?.state === 'loaded') return this.#child;
    const child = await this.#unspoilt();
    await this.#isIntact(FIRST_LOOK_MS);
    return child;
  }

  /** A child for one probe, after which nobody asks how it was. */
  async #unspoilt(): Promise<TestChild> {
    await this.#drop();
    this.#child = this.#spawn();
    await this.#child.load(bundleOf(EVALUATOR, { members: this.#members }));
    return this.#child;
  }

  async #drop(): Promise<void> {
    await this.#child?.kill('the next probe');
    this.#child = null;
  }
}

let recorded: Promise<import('../../../sdk/contract/protocol.ts').Registrations> | null = null;
const WORDS_MAX = 80;
const words = (value: unknown): string => (String(value) || 'something').slice(0, WORDS_MAX);
