/** Everything that a check of a runtime has running: the plugins, the model, the proxy, and the runtime itself. */
import { randomUUID } from 'node:crypto';
import type { LogWatch } from '../log-watch.ts';
import type { Package } from '../packages.ts';
import type { InstalledDraft, Run } from '../run.ts';
import { FakeModel } from './fake-model.ts';
import { failingGuard, type Guard, judge, pieceGuard, wholeGuard } from './judges.ts';
import { RuntimeProcess } from './runtime-process.ts';
import { SessionProxy } from './session-proxy.ts';

/** Number of messages after which the runtime must compact a conversation. */
const COMPACT_AFTER = 6;
const SHARED_NAME = 'kit-shared';
/** Outcomes of a hook and of a tool in the service's log lines: the plugin was too slow. */
const TOO_SLOW = /^(\w+_)?timeout$/;

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

/** An installed plugin of the kit. */
interface KitPlugin extends InstalledDraft {
  readonly watch: LogWatch;
  /** The process that ran when its log was last read. Null: it was not read. */
  processId: string | null;
}
const GUARDS = { whole: wholeGuard, pieces: pieceGuard, failing: failingGuard };
/** While a guard that is not required does not run, texts reach the user unjudged, and the runtime would get the blame. */
const REQUIRED = { required: true };

async function installKitPlugin(run: Run, name: string, content: Package, options = {}): Promise<KitPlugin> {
  const installed = await run.installDraft(name, content, options);
  return { ...installed, watch: await run.watch(installed.installationId), processId: null };
}

export class RuntimeFixture {
  readonly run: Run;
  readonly model: FakeModel;
  readonly proxy: SessionProxy;
  /** Judges messages of users, tool calls and their results. */
  readonly judge: KitPlugin;
  /** Null: it cannot be set. */
  readonly clock: ServiceClock | null;
  readonly #options: FixtureOptions;
  #runtime: RuntimeProcess | null = null;
  readonly #started: RuntimeProcess[] = [];
  /** Judges the agent's texts now. Null: no plugin does. */
  #guard: KitPlugin | null = null;
  #restarts = 0;

  private constructor(
    run: Run,
    parts: { model: FakeModel; proxy: SessionProxy; judge: KitPlugin },
    options: FixtureOptions,
  ) {
    this.run = run;
    this.model = parts.model;
    this.proxy = parts.proxy;
    this.judge = parts.judge;
    this.clock = options.clock ?? null;
    this.#options = options;
  }

  static async open(run: Run, options: FixtureOptions): Promise<RuntimeFixture> {
    const installed = await installKitPlugin(run, 'judge', judge);
    // Last, because open servers keep the process alive where an installation is refused.
    const model = await FakeModel.start();
    const proxy = await SessionProxy.start(run.own.sessionsUrl);
    return new RuntimeFixture(run, { model, proxy, judge: installed }, options);
  }

  /** The process that most scenarios share. It is started again when it has ended. */
  runtime(): RuntimeProcess {
    if (this.#runtime === null || this.#runtime.isOver) this.#runtime = this.startRuntime(SHARED_NAME);
    return this.#runtime;
  }

  /** @throws Error while no plugin judges the agent's texts */
  get guard(): KitPlugin {
    if (this.#guard === null) throw new Error('No plugin judges the texts of the agent in this chapter.');
    return this.#guard;
  }

  /**
   * How often a plugin of the kit was too slow, or its process was replaced by another one: calls may have failed meanwhile. A log
   * cannot count the calls that found no process: the service writes such a line once an hour. Call `readLogs` before.
   */
  get faults(): number {
    const lines = this.#plugins.flatMap(({ watch }) => watch.lines);
    return this.#restarts + lines.filter(({ data }) => TOO_SLOW.test(data?.outcome)).length;
  }

  /** Waits until the plugins of the kit run, and until their log lines of what was before have arrived. */
  async readLogs(): Promise<void> {
    await Promise.all(this.#plugins.map((plugin) => this.#readLog(plugin)));
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

  /** Replaces the plugin that judges the agent's texts, and waits until the plugins run. */
  async setGuard(guard: Guard): Promise<void> {
    const { own } = this.run;
    if (this.#guard) {
      await own.need(own.delete(`/installations/${this.#guard.installationId}`), 204);
      await this.#untilHooks((slugs) => !slugs.includes(this.#guard?.slug ?? ''));
    }
    this.#guard = guard === 'none' ? null : await installKitPlugin(this.run, `${guard}-guard`, GUARDS[guard], REQUIRED);
    if (this.#guard !== null) {
      const { slug } = this.#guard;
      await this.#untilHooks((slugs) => slugs.includes(slug));
    }
    await this.readLogs();
  }

  async close(): Promise<void> {
    await this.#runtime?.stop();
    this.model.close();
    this.proxy.close();
  }

  get #plugins(): readonly KitPlugin[] {
    return this.#guard === null ? [this.judge] : [this.judge, this.#guard];
  }

  /** Lines of a plugin come in order, so those before the line of the tool `mark` have come with it. */
  async #readLog(plugin: KitPlugin): Promise<void> {
    const { own } = this.run;
    const mark = randomUUID();
    // In another session than the scenario's, because a scenario may stop the tools of its own.
    const path = `/sessions/${await this.run.session()}/tools/${plugin.slug}__mark`;
    const processId = await this.run.until('the start of the plugin', async () => {
      const { status, body } = await own.session('POST', path, { arguments: { mark } });
      return status === 200 && body.isError === false && String(body.content[0].text);
    });
    await plugin.watch.find('the kit', ({ message }) => message === `mark ${mark}`);
    if (plugin.processId !== null && plugin.processId !== processId) this.#restarts += 1;
    plugin.processId = processId;
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
