/** Runs tools, commands, hooks and events of an installation in a temporary session. */
import type { ProblemCode } from '../contract/errors.ts';
import { completeFields } from '../contract/example-fields.ts';
import { formatFullName } from '../contract/full-names.ts';
import { type EventName, events, hooks } from '../contract/protocol.ts';
import type { HookRow } from '../contract/rows.ts';
import type { HookName } from '../session/api-types.ts';
import type { Session } from '../session/client.ts';
import { followEvents, type ServerSentEvent } from '../session/event-stream.ts';
import { BulkheadError, hasCode, type Transport } from '../session/transport.ts';
import { describeConditionAndStep } from './condition-text.ts';
import type { Context } from './context.ts';
import { CommandError, isTransient } from './failure.ts';
import { suggestName } from './nearest-name.ts';
import type { Installation } from './rest-types.ts';
import { toOneLine } from './terminal-text.ts';

const AGENT = { agentId: 'bulkhead-cli', agentName: 'bulkhead command line' };

/**
 * How long a command that ends waits until its temporary session is deleted, which takes milliseconds. Over a network that was lost, the
 * request would keep the command for minutes. Milliseconds.
 */
const DELETE_TIMEOUT_MS = 3_000;
/** Longest pause before the inspector is opened again. Milliseconds. */
const REOPEN_PAUSE_MS = 1_000;
/**
 * Refusals of an inspector that was open and may be again: the service has not noticed that the last stream broke, or the account moves to
 * another supervisor.
 */
const REOPEN_LATER: ReadonlySet<string> = new Set(['inspector_open', 'not_running'] satisfies ProblemCode[]);

/** The service's answer where it has no hint: it suggests a name only if a model has most probably meant it. */
const UNKNOWN_TOOL = 'No tool has this name.';

interface FiredEvent {
  readonly id: string;
  readonly event: string;
  readonly outcome: 'delivered' | 'failed';
  readonly error: string | null;
  readonly ms: number;
}

export class TestSession {
  readonly #context: Context;
  readonly #transport: Transport;
  #session: Session | null = null;

  private constructor(context: Context, transport: Transport) {
    this.#context = context;
    this.#transport = transport;
  }

  static async open(context: Context): Promise<TestSession> {
    return new TestSession(context, await context.getSessionTransport());
  }

  /**
   * Waits until the last saved draft runs.
   *
   * @param advice what to do if the installation follows no draft
   * @throws CommandError `not_a_draft`, CommandError or BulkheadError `not_running` with the reason
   */
  async waitForDraft(installationId: string, advice: string): Promise<void> {
    await this.#postToDraft(installationId, 'wake', { repeatable: true, advice });
  }

  /** Sends an event to a draft. @throws CommandError if there is no such event */
  fireEvent(installationId: string, event: string, data: object): Promise<FiredEvent> {
    const name = event.replace(/^events\./, '');
    if (!Object.hasOwn(events, name)) throw createUnknownNameError('event', event, Object.keys(events));
    return this.#postToDraft(installationId, 'fire', { body: { event: name as EventName, data } });
  }

  /**
   * Opens the draft's inspector and yields its events. Opens it again whenever it was closed or its stream broke, until the signal
   * aborts or the service refuses. The inspector closes when the caller stops reading.
   *
   * @param onBreak called when the inspector is not open any more, and when it cannot be opened now, with the error
   * @throws BulkheadError if the service refuses to open it for the first time, or never opens it again
   */
  inspect(installationId: string, onBreak: (error?: unknown) => void): AsyncGenerator<ServerSentEvent> {
    const path = `/installations/${installationId}/inspector`;
    const { signal } = this.#context;
    let attempts = 0;
    const open = async () => {
      attempts += 1;
      return (await this.#transport.open({ method: 'POST', path, signal })).body;
    };
    // The first refusal may last: the service is out of inspectors until a developer closes one.
    const isRetryable = (error: unknown) =>
      !(error instanceof BulkheadError) || (attempts > 1 && (isTransient(error) || REOPEN_LATER.has(error.code)));
    return followEvents({ open, isRetryable, onBreak, pauseMs: REOPEN_PAUSE_MS, signal });
  }

  /** @param name with or without the prefix `<slug>__` */
  async callTool(slug: string, name: string, args: object): Promise<unknown> {
    const session = await this.getSession();
    const { signal } = this.#context;
    const full = toFullName(slug, name);
    return session.callTool(full, args, { signal }).catch(async (error: unknown) => {
      if (!hasCode(error, 'not_found') || error.message !== UNKNOWN_TOOL) throw error;
      const known = (await session.tools({ signal })).map((tool) => tool.name);
      throw new CommandError('not_found', `${error.message} ${suggestName(full, known)}`.trimEnd());
    });
  }

  /** @param name with or without the prefix `<slug>__` */
  async runCommand(slug: string, name: string, input: string): Promise<unknown> {
    const session = await this.getSession();
    const { signal } = this.#context;
    const full = toFullName(slug, name);
    return session.runCommand(full, input, { signal }).catch(async (error: unknown) => {
      if (!hasCode(error, 'not_found')) throw error;
      const known = (await session.commands({ signal })).map((command) => command.name);
      throw new CommandError('not_found', `There is no command “${full}”. ${suggestName(full, known)}`.trimEnd());
    });
  }

  /** Runs a hook of all installed plugins. Omitted context fields, at any depth, come from the hook's example. */
  async runHook(name: string, given: Readonly<Record<string, unknown>>): Promise<unknown> {
    const full = Object.keys(hooks).find((known) => known === name || toShortName(known) === name);
    if (full === undefined) throw createUnknownNameError('hook', name, Object.keys(hooks).map(toShortName));
    const context = fillContext(full, given);
    const session = await this.getSession();
    const { signal } = this.#context;
    if (full === 'compaction.summarize') {
      const { messages, focus } = context;
      return session.compact({ messages, focus } as object, { signal });
    }
    return session.hook(toShortName(full) as HookName, context as never, { signal });
  }

  /** Returns the temporary session, which starts on first use. */
  async getSession(): Promise<Session> {
    this.#session ??= await (await this.#context.getSessions()).start(AGENT, { signal: this.#context.signal });
    return this.#session;
  }

  /** Deletes the temporary session. */
  async close(): Promise<void> {
    if (this.#session) await deleteTemporarySession(this.#session);
    this.#session = null;
  }

  async #postToDraft<Answer>(
    installationId: string,
    action: 'wake' | 'fire',
    { body, repeatable = false, advice }: DraftRequest,
  ): Promise<Answer> {
    const path = `/installations/${installationId}/${action}`;
    try {
      return await this.#transport.json({ method: 'POST', path, body, repeatable, signal: this.#context.signal });
    } catch (error) {
      if (!hasCode(error, 'not_running') && !hasCode(error, 'not_a_draft')) throw error;
      const rest = await this.#context.getRest();
      throw explainRefusal(await rest.get<Installation>(`/installations/${installationId}`), advice) ?? error;
    }
  }
}

/** Deletes the session of a command that ends, also after Ctrl-C. Never rejects. */
export async function deleteTemporarySession(session: Session): Promise<void> {
  await session.delete({ signal: AbortSignal.timeout(DELETE_TIMEOUT_MS) }).catch(() => undefined);
}

/** States in which no version runs, whatever its code. */
const STOPPED: ReadonlySet<string> = new Set(['paused', 'blocked', 'needs_configuration', 'uninstalling']);

interface DraftRequest {
  readonly body?: unknown;
  readonly repeatable?: boolean;
  /** What to do if the installation follows no draft. */
  readonly advice?: string;
}

/** Says why a draft cannot be called, and what to do. Null: the installation does not know more than the service said. */
function explainRefusal(installation: Installation, advice?: string): CommandError | null {
  const { slug, versionPolicy, currentSemVer, condition, updateUnderWay } = installation;
  if (versionPolicy !== 'Draft') {
    const runs = `“${slug}” runs ${currentSemVer ?? 'the draft'} with the policy ${versionPolicy}`;
    const install = `To run your draft, use \`bulkhead install ${slug} --draft\` or \`bulkhead dev\`.`;
    return new CommandError('not_a_draft', `${runs}. ${advice ?? install}`);
  }
  if (STOPPED.has(condition.state)) {
    const message = `“${slug}” cannot run your draft now. Its state is ${describeConditionAndStep(installation)}`;
    return new CommandError('not_running', message);
  }
  const waitsFor = updateUnderWay?.waitsFor ?? null;
  if (waitsFor === null) return null;
  const message = `“${slug}” does not run your draft yet. ${toOneLine(waitsFor)} See \`bulkhead configure ${slug} --help\`.`;
  return new CommandError('not_running', message);
}

/** @throws CommandError `usage` that names the field */
function fillContext(hook: string, given: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { context, example }: HookRow = hooks[hook as keyof typeof hooks];
  try {
    return completeFields(hook, context, example.context, given);
  } catch (error) {
    throw new CommandError('usage', error instanceof Error ? error.message : String(error));
  }
}

const toFullName = (slug: string, name: string): string =>
  name.includes('__') ? name : formatFullName({ slug }, name);

/** `middleware.systemPrompt` → `systemPrompt`. */
const toShortName = (hook: string): string => hook.replace(/^middleware\./, '');

const createUnknownNameError = (kind: string, name: string, known: readonly string[]): CommandError =>
  new CommandError('usage', `There is no ${kind} “${name}”. ${suggestName(name, known)} Known: ${known.join(', ')}.`);
