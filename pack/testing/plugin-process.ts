/** The jailed process of an open plugin, and the calls to it. */
import { randomUUID } from 'node:crypto';
import { mapTexts } from '../../db/postgres/storable-json.ts';
import { mapFrames } from '../../db/records/source-maps.ts';
import { type HostCallName, hostCalls, type Registrations, type Target } from '../../sdk/contract/protocol.ts';
import type { LogLine } from '../../sdk/testing/testing.ts';
import type { LinkResult } from '../../supervisor/calls/chain.ts';
import { canHaveSession, formatSource } from '../../supervisor/calls/plugin-call.ts';
import { fromOutcome, maskError, maskResult } from '../../supervisor/children/call-results.ts';
import { type Child, type ChildLogLine, type HostCall, startChild } from '../../supervisor/children/child.ts';
import type { InvokeOptions } from '../../supervisor/children/child-calls.ts';
import { ChildError } from '../../supervisor/children/child-errors.ts';
import { makeSpare, type Spare } from '../../supervisor/children/spare-children.ts';
import type { LocalBuild } from '../local-build.ts';
import type { BorrowedSandbox } from '../local-sandbox.ts';
import { pluginError, type Source } from './plugin-error.ts';
import type { ScriptedHost } from './scripted-host.ts';

/** Maximum number of log lines stored for the test. */
const LINES_MAX = 10_000;

export interface ProcessOptions {
  readonly built: LocalBuild;
  readonly slug: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly host: ScriptedHost;
}

export class PluginProcess {
  readonly logs: LogLine[] = [];
  readonly #child: Child;
  readonly #host: ScriptedHost;
  readonly #source: Source;
  /** Running handlers by invocation id: the sources of log lines and host calls. */
  readonly #running = new Map<string, Target>();

  private constructor(spare: Spare, { host, built, slug }: ProcessOptions) {
    this.#host = host;
    this.#source = { sourceMap: built.bundle.sourceMap, name: `${slug}.js` };
    this.#child = spare.child;
    spare.setHandlers({
      onHostCall: (call) => this.#answerHostCall(call),
      onLog: (line) => this.#addPluginLine(line),
      onExit: ({ requested, reason }) =>
        requested || this.addSystemLine('error', `The plugin’s process ended: ${host.mask.maskText(reason)}.`),
    });
  }

  /** Loads a plugin into a process that has loaded none. @throws PluginError when it does not load */
  static async start(
    { sandbox, takeChild }: Pick<BorrowedSandbox, 'sandbox' | 'takeChild'>,
    options: ProcessOptions,
  ): Promise<PluginProcess> {
    const spare = takeChild() ?? makeSpare((handlers) => startChild(sandbox.jail, handlers));
    const started = new PluginProcess(spare, options);
    const { built, host, settings } = options;
    try {
      await started.#child.load({
        bundle: built.bundle.text,
        sourceName: started.#source.name,
        members: host.members,
        settings,
        secretNames: Object.keys(built.manifest.secrets),
        expected: built.registrations as Registrations,
      });
      return started;
    } catch (error) {
      await started.end();
      throw started.#toPluginError('It does not start', error);
    }
  }

  /**
   * Calls a handler. The result is masked as in the service.
   *
   * @param context without the fields that every call has
   * @throws PluginError when the plugin fails, times out or has exited; Error when the arguments do not fit the tool's schema, or
   *   the test's script is incomplete
   */
  async call(
    target: Target,
    budgetMs: number,
    context: Readonly<Record<string, unknown>>,
    signal?: AbortSignal,
    onDelta?: InvokeOptions['onDelta'],
  ): Promise<LinkResult> {
    const [invocationId, deadlineAt] = [randomUUID(), Date.now() + budgetMs];
    const source = formatSource(target);
    this.#running.set(invocationId, target);
    const frame = { invocationId, deadlineAt: new Date(deadlineAt).toISOString() };
    const options = { invocationId, deadlineAt, onDelta, signal };
    try {
      const outcome = await this.#child.invoke(target, { ...frame, ...context }, options);
      const result = maskResult(this.#host.mask, fromOutcome(outcome));
      if ('invalidArguments' in result) throw new Error(`${source}: ${result.message}`);
      return result;
    } catch (error) {
      throw this.#toPluginError(source, error);
    } finally {
      this.#running.delete(invocationId);
      const mistake = this.#host.takeMistake();
      // biome-ignore lint/correctness/noUnsafeFinally: a mistake in the test takes precedence over errors that follow from it
      if (mistake) throw mistake;
    }
  }

  /** Creates the error of the plugin for the test to throw. */
  fault(what: string, message: string, stack = ''): Error {
    return pluginError(what, message, stack, this.#source);
  }

  configure(settings: Readonly<Record<string, string>>): void {
    this.#child.configure(settings, this.#host.members);
  }

  async end(): Promise<void> {
    await this.#child.kill('the test closed it');
  }

  async #answerHostCall(call: HostCall): Promise<unknown> {
    const row = Object.hasOwn(hostCalls, call.member) ? hostCalls[call.member as HostCallName] : null;
    const { invocationId } = call;
    const endCall = row && invocationId !== null ? this.#child.beginHostCall(invocationId, row.budget) : null;
    try {
      const kind = this.#findTarget(invocationId)?.kind;
      return await this.#host.answer(call, kind !== undefined && canHaveSession(kind));
    } finally {
      endCall?.();
    }
  }

  /** Undefined: the plugin acts outside of handlers, or after the answer. */
  #findTarget(invocationId: string | null): Target | undefined {
    return invocationId === null ? undefined : this.#running.get(invocationId);
  }

  #addPluginLine({ level, message, data, invocationId }: ChildLogLine): void {
    const target = this.#findTarget(invocationId);
    const source = target ? formatSource(target) : 'background';
    this.#addLine({ level, message, data, source });
  }

  /** As the log of the service shows it: without secrets, and with positions in the author's files. */
  #show(text: string): string {
    return mapFrames(this.#source.sourceMap, this.#host.mask.maskText(text), this.#source.name);
  }

  /** Adds a line that the service would add. */
  addSystemLine(level: LogLine['level'], message: string, data?: object): void {
    this.#addLine({ level, message, data, source: 'system' });
  }

  #addLine({ level, message, data, source }: LogLine): void {
    if (this.logs.length >= LINES_MAX) return;
    const shown = data === undefined ? {} : { data: mapTexts(data, (text) => this.#show(text)) };
    this.logs.push({ level, message: this.#show(message), source, ...shown });
  }

  #toPluginError(what: string, error: unknown): unknown {
    if (!(error instanceof ChildError)) return error;
    const { kind, message: text, pluginStack } = maskError(this.#host.mask, error);
    // The error names the handler itself: `hook middleware.x took longer …`.
    const message = kind === 'timeout' ? text.replace(/^.* (?=took longer )/, 'it ') : text;
    return this.fault(what, message, pluginStack);
  }
}
