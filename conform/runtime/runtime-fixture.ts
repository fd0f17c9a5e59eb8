/** Everything that a check of a runtime has running: the plugins, the model, the proxy, and the runtime itself. */

import type { LogWatch } from '../log-watch.ts';
import type { InstalledDraft, Run } from '../run.ts';
import { FakeModel } from './fake-model.ts';
import { failingGuard, type Guard, judge, pieceGuard, wholeGuard } from './judges.ts';
import { RuntimeProcess } from './runtime-process.ts';
import { SessionProxy } from './session-proxy.ts';

/** Number of messages after which the runtime must compact a conversation. */
const COMPACT_AFTER = 6;
const SHARED_NAME = 'kit-shared';
/** Start of the service's log line about a crashed plugin process. */
const CRASHED = "The plugin's process ended";
/** Outcomes of a hook in the service's log lines: the plugin was too slow, or could not be called. */
const NOT_RUN = /_(timeout|unavailable)$/;

/** Sets the clock of a service. */
export interface ServiceClock {
  /** Lets time pass for one session; the others stay as they are. */
  advance(sessionId: string, seconds: number): Promise<void>;
}
/** How the runtime is started, and what is known of the service. */
interface FixtureOptions {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock?: ServiceClock;
}

export class RuntimeFixture {
  readonly run: Run;
  readonly model: FakeModel;
  readonly proxy: SessionProxy;
  readonly judgeSlug: string;
  readonly watch: LogWatch;
  /** Null: it cannot be set. */
  readonly clock: ServiceClock | null;
  readonly #options: FixtureOptions;
  #runtime: RuntimeProcess | null = null;
  readonly #started: RuntimeProcess[] = [];
  /** The installation that judges the agent's texts now. */
  #guard: InstalledDraft | null = null;
  /** The log of that installation. Null: no plugin judges now, or the one that does fails on purpose. */
  #guardWatch: LogWatch | null = null;

  private constructor(
    run: Run,
    parts: { model: FakeModel; proxy: SessionProxy; judge: InstalledDraft; watch: LogWatch },
    options: FixtureOptions,
  ) {
    this.run = run;
    this.model = parts.model;
    this.proxy = parts.proxy;
    this.judgeSlug = parts.judge.slug;
    this.watch = parts.watch;
    this.clock = options.clock ?? null;
    this.#options = options;
  }

  static async open(run: Run, options: FixtureOptions): Promise<RuntimeFixture> {
    const installed = await run.installDraft('judge', judge);
    const watch = await run.watch(installed.installationId);
    // Last, because open servers keep the process alive where an installation is refused.
    const model = await FakeModel.start();
    const proxy = await SessionProxy.start(run.own.sessionsUrl);
    return new RuntimeFixture(run, { model, proxy, judge: installed, watch }, options);
  }

  /** The process that most scenarios share. It is started again when it has ended. */
  runtime(): RuntimeProcess {
    if (this.#runtime === null || this.#runtime.isOver) this.#runtime = this.startRuntime(SHARED_NAME);
    return this.#runtime;
  }

  /** How often a plugin of the kit has crashed, or a hook of it did not run. */
  get faults(): number {
    const lines = [...this.watch.lines, ...(this.#guardWatch?.lines ?? [])];
    return lines.filter(({ message, data }) => message.startsWith(CRASHED) || NOT_RUN.test(data?.outcome)).length;
  }

  /** Waits until the judging plugin runs again. */
  async untilJudgeRuns(): Promise<void> {
    const { own } = this.run;
    const path = `/sessions/${await this.run.session()}/tools/${this.judgeSlug}__mark`;
    await this.run.until('the start of the plugin', async () => {
      const { status, body } = await own.session('POST', path, { arguments: { mark: 'start' } });
      return status === 200 && body.isError === false;
    });
  }

  startRuntime(name: string): RuntimeProcess {
    const { command, env } = this.#options;
    const started = new RuntimeProcess(command, {
      ...env,
      BULKHEAD_URL: this.proxy.url,
      BULKHEAD_TOKEN: this.run.own.token,
      BULKHEAD_RUNTIME: name,
      BULKHEAD_COMPACT_AFTER: String(COMPACT_AFTER),
      MODEL_URL: this.model.url,
      MODEL: 'kit',
    });
    this.#started.push(started);
    return started;
  }

  /** Ends the scenarios that run: their runtimes are gone. */
  async killRuntimes(): Promise<void> {
    await Promise.all(this.#started.map((started) => started.kill()));
  }

  /** Replaces the plugin that judges the agent's texts. */
  async setGuard(guard: Guard): Promise<void> {
    const { own } = this.run;
    if (this.#guard) {
      await own.need(own.delete(`/installations/${this.#guard.installationId}`), 204);
      await this.#untilHooks((slugs) => !slugs.includes(this.#guard?.slug ?? ''));
    }
    this.#guard = await this.#install(guard);
    this.#guardWatch = null;
    if (this.#guard === null) return;
    const { slug, installationId } = this.#guard;
    await this.#untilHooks((slugs) => slugs.includes(slug));
    if (guard !== 'failing') this.#guardWatch = await this.run.watch(installationId);
  }

  async close(): Promise<void> {
    await this.#runtime?.stop();
    this.model.close();
    this.proxy.close();
  }

  async #install(guard: Guard): Promise<InstalledDraft | null> {
    if (guard === 'none') return null;
    const packages = { whole: wholeGuard, pieces: pieceGuard, failing: failingGuard };
    // Required: while a guard did not run, texts would reach the user unjudged, and the runtime would get the blame.
    return this.run.installDraft(`${guard}-guard`, packages[guard], { required: true });
  }

  /** Waits until the service runs another set of plugins for messages of agents. */
  async #untilHooks(isSet: (slugs: readonly string[]) => boolean): Promise<void> {
    const { own } = this.run;
    const session = await this.run.session();
    await this.run.until('the change of the plugins', async () => {
      const { items } = await own.need(own.session('GET', `/sessions/${session}/hooks`));
      return isSet(
        items
          .filter(({ name }: { name: string }) => name === 'outboundMessage')
          .map(({ slug }: { slug: string }) => slug),
      );
    });
  }
}
