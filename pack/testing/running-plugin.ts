/** An open plugin for tests: completes contexts, and validates results by the rules of the service. */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { closest } from 'fastest-levenshtein';
import { HANDSHAKE_MAX_BYTES, isHandshake } from '../../api/ingress/handshake-selection.ts';
import type { FolderFile } from '../../sdk/cli/local-tools.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { completeFields } from '../../sdk/contract/example-fields.ts';
import { limits } from '../../sdk/contract/limits.ts';
import { listSecretCapabilities } from '../../sdk/contract/manifest.ts';
import { type EventName, events, type HookName, hooks, surfaces, type Target } from '../../sdk/contract/protocol.ts';
import type { EventRow, HookRow } from '../../sdk/contract/rows.ts';
import type { ToolResult, Trigger } from '../../sdk/session/api-types.ts';
import type { Handshake, OpenPlugin, PluginOptions, Received, VendorRequest } from '../../sdk/testing/testing.ts';
import { foldLink, type LinkResult, startChain } from '../../supervisor/calls/chain.ts';
import { pickStack } from '../../supervisor/calls/plugin-call.ts';
import { checkSurfaceAnswer, type SurfaceAnswer, type SurfaceKind } from '../../supervisor/calls/surface-answers.ts';
import { AnswerDeltas } from '../../supervisor/children/answer-deltas.ts';
import type { InvokeOptions } from '../../supervisor/children/child-calls.ts';
import { splitHandshakeHeaders } from '../../supervisor/delivery/handshake-headers.ts';
import { toRequest } from '../../supervisor/delivery/webhook-request.ts';
import { defaultTrigger } from '../../supervisor/sessions/default-trigger.ts';
import { chooseModel } from '../../supervisor/sessions/model-choice.ts';
import { belowFrontmatter, fillPrompt } from '../../supervisor/sessions/prompt-texts.ts';
import { findSummaryFault } from '../../supervisor/sessions/summary-faults.ts';
import { failedTool, readToolResult } from '../../supervisor/sessions/tool-results.ts';
import type { BorrowedSandbox } from '../local-sandbox.ts';
import { PluginProcess, type ProcessOptions } from './plugin-process.ts';
import { refuseUnknownFields, resolvePluginSettings } from './plugin-settings.ts';

type Fields = Readonly<Record<string, unknown>>;
export interface Opened extends BorrowedSandbox, ProcessOptions {
  readonly files: readonly FolderFile[];
  readonly options: PluginOptions;
}

const AGENT = { id: 'agent-1', name: 'Agent' };
const SESSION = { id: 'session-1', channelId: null };

export class RunningPlugin implements OpenPlugin {
  readonly #opened: Opened;
  readonly #process: PluginProcess;
  #settings: Readonly<Record<string, string>>;
  #closing: Promise<void> | null = null;

  private constructor(opened: Opened, process: PluginProcess) {
    this.#opened = opened;
    this.#process = process;
    this.#settings = opened.settings;
  }

  static async start(opened: Opened): Promise<RunningPlugin> {
    return new RunningPlugin(opened, await PluginProcess.start(opened, opened));
  }

  get name(): string {
    return this.#opened.built.manifest.name;
  }
  get sandbox(): OpenPlugin['sandbox'] {
    const { missing } = this.#opened.sandbox;
    return { state: missing === null ? 'full' : 'degraded', missing };
  }
  get discovered(): OpenPlugin['discovered'] {
    return this.#opened.built.discovered as Fields;
  }
  get warnings(): readonly string[] {
    return this.#opened.built.warnings;
  }
  get logs(): OpenPlugin['logs'] {
    return this.#process.logs;
  }
  get calls(): OpenPlugin['calls'] {
    return this.#opened.host.calls;
  }

  readonly hook: OpenPlugin['hook'] = async (name: string, given: object = {}, options = {}) => {
    const hook = findHook(name);
    const row: HookRow = hooks[hook];
    this.#require('hooks', hook, hook);
    const context = completeFields(hook, row.context, row.example.context, given as Fields);
    const { trigger = hostTrigger(hook), repeated = false, signal } = options;
    const base = { hook, ...this.#place(), settings: this.#settings, trigger, at: new Date().toISOString() };
    const fields = { ...base, ...(repeated ? { repeated } : {}), ...context };
    const answer = await this.#process.call({ kind: 'hook', name: hook }, row.budgetMs, fields, signal);
    if (isFailure(answer)) throw this.#process.fault(hook, answer.message, answer.stack);
    const folded = foldHook(hook, context, answer);
    if (folded.fault !== null) throw this.#process.fault('its answer', folded.fault);
    return folded.result as never;
  };

  async tool(
    name: string,
    args: unknown = {},
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<ToolResult> {
    this.#require('tools', name, `tools.${name}`);
    const answer = await this.#surface(
      'tools',
      name,
      { callId: randomUUID(), arguments: args, ...this.#place() },
      signal,
    );
    if (answer.kind === 'cancelled') return failedTool(answer.reason);
    if (isFailure(answer)) {
      const { kind, message } = answer;
      const data = { outcome: kind, ...pickStack(answer) };
      this.#process.addSystemLine('error', `tools.${name} (${kind}): ${message}`, data);
      return failedTool(message);
    }
    try {
      return readToolResult(`tools.${name}`, answer.answer, limits.toolResultBytes);
    } catch (error) {
      throw error instanceof Problem ? this.#process.fault('its answer', error.message) : error;
    }
  }

  async command(name: string, input = ''): Promise<string> {
    if (!Object.hasOwn(this.#opened.built.registrations.commands, name)) {
      const prompt = this.#opened.files.find(({ path }) => path === `commands/${name}.md`);
      if (prompt) return fillPrompt(belowFrontmatter(await readFile(prompt.at, 'utf8')), input);
    }
    this.#require('commands', name, `commands.${name}`);
    const answer = this.#answered(
      `commands.${name}`,
      await this.#surface('commands', name, { input, ...this.#place() }),
    );
    return this.#checked('commands', answer, `commands.${name}`).text;
  }

  readonly chat: OpenPlugin['chat'] = async (provider, request, { onDelta, signal } = {}) => {
    this.#require('providers', provider, `providers.${provider}`);
    const full = `providers.${provider}`;
    const deltas = new AnswerDeltas(this.#opened.host.mask, async (delta) => onDelta?.(delta), signal);
    const fields = { request: this.#completionRequest(provider, request) };
    const answered = this.#surface('providers', provider, fields, deltas.signal, deltas.receive);
    const answer = this.#answered(
      full,
      await answered.catch((error: unknown) => {
        // The refusal aborted the call.
        throw deltas.fault === null ? error : this.#process.fault(full, deltas.fault);
      }),
    );
    const ended = await deltas.end({ kind: 'answered', answer });
    if (ended.kind === 'error') throw this.#process.fault(full, ended.message);
    return this.#checked('providers', answer, full);
  };

  readonly event: OpenPlugin['event'] = async (name: EventName, data = {}, { id = randomUUID(), attempt = 1 } = {}) => {
    if (!Object.hasOwn(events, name))
      throw new Error(`No event is named ${name}; did you mean ${closest(String(name), Object.keys(events))}?`);
    this.#require('events', name, `events.${name}`);
    const row: EventRow = events[name];
    const envelope = {
      id,
      type: name,
      occurredAt: new Date().toISOString(),
      attempt,
      installationId: 'installation-1',
      pluginId: 'plugin-1',
      versionId: 'version-1',
      semVer: '1.0.0',
      data: completeFields(`events.${name}`, row.data, row.example, data as Fields),
    };
    const answer = await this.#process.call({ kind: 'event', name }, row.budgetMs, envelope);
    this.#answered(`events.${name}`, answer);
  };

  async receive(request: VendorRequest): Promise<Received> {
    return (
      this.#checked('channel.receive', await this.#channel('receive', { request: toRequest(toDelivery(request)) })) ??
      NO_MESSAGES
    );
  }

  async handshake(request: VendorRequest): Promise<Handshake | undefined> {
    const delivery = toDelivery(request);
    const { handshake, handshakeOn } = this.#opened.built.registrations.channel;
    if (handshake && !isHandshake({ handshake: handshakeOn ?? {} }, delivery)) {
      this.#process.addSystemLine('warn', NO_HANDSHAKE);
      return undefined;
    }
    const given = await this.#channel('handshake', { request: toRequest(delivery) });
    const answer = this.#checked('channel.handshake', given);
    if (!answer?.headers) return answer;
    const { sent, note } = splitHandshakeHeaders(answer.headers);
    if (note !== null) this.#process.addSystemLine('warn', note);
    return { ...answer, headers: sent };
  }

  async send(message: Parameters<OpenPlugin['send']>[0]): Promise<void> {
    const row = surfaces['channel.send'].params.shape.message;
    await this.#channel('send', { message: completeFields('the message', row, NO_REPLY, message) });
  }

  configure(settings: Readonly<Record<string, string>>): void {
    const { built, options } = this.#opened;
    this.#settings = resolvePluginSettings(built.manifest, {
      ...options,
      settings: { ...this.#settings, ...settings },
    });
    this.#process.configure(this.#settings);
  }

  close(): Promise<void> {
    this.#closing ??= this.#process.end().finally(() => this.#opened.release());
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #place() {
    const { agent = AGENT, session = SESSION } = this.#opened.options;
    return { agent, session };
  }

  /** Returns a request as the service would send it: it always names one of the provider's models. @throws Error for others */
  #completionRequest(provider: string, given: Fields): Fields {
    const request = completeFields('the request', surfaces.providers.params.shape.request, {}, given);
    const { models = [] } = this.#opened.built.registrations.providers[provider] ?? {};
    const wanted = given.model;
    return { ...request, model: chooseModel(`providers.${provider}`, models, wanted as string | undefined) };
  }

  #surface(
    kind: 'tools' | 'commands' | 'providers',
    name: string,
    fields: Fields,
    signal?: AbortSignal,
    onDelta?: InvokeOptions['onDelta'],
  ) {
    const context = { settings: this.#settings, ...fields };
    return this.#process.call({ kind, name }, surfaces[kind].budgetMs, context, signal, onDelta);
  }

  async #channel(name: 'receive' | 'send' | 'handshake', fields: Fields): Promise<unknown> {
    const full = `channel.${name}` as const;
    if (!this.#opened.built.registrations.channel[name]) throw this.#unregistered(full);
    const target: Target = { kind: 'channel', name };
    const answer = await this.#process.call(target, surfaces[full].budgetMs, { settings: this.#settings, ...fields });
    return this.#answered(full, answer) ?? undefined;
  }

  #answered(what: string, answer: LinkResult): unknown {
    if (answer.kind === 'answered') return answer.answer;
    if (answer.kind === 'cancelled') throw this.#process.fault(what, `it cancelled: ${answer.reason}`);
    throw this.#process.fault(what, answer.message, answer.stack);
  }

  #checked<Kind extends SurfaceKind>(kind: Kind, given: unknown, name: string = kind): SurfaceAnswer<Kind> {
    const checked = checkSurfaceAnswer(kind, given);
    if (checked.kind === 'error') throw this.#process.fault(name, checked.message);
    return checked.answer;
  }

  #require(kind: 'hooks' | 'events' | 'tools' | 'commands' | 'providers', name: string, full: string): void {
    const known = this.#opened.built.registrations[kind];
    if (Array.isArray(known) ? !known.includes(name) : !Object.hasOwn(known, name)) throw this.#unregistered(full);
  }

  #unregistered(name: string): Error {
    const { capabilities, manifest } = this.#opened.built;
    const declared = [...manifest.capabilities, ...listSecretCapabilities(manifest)];
    const offered = capabilities.filter((capability) => !declared.includes(capability)).join(', ');
    return new Error(
      `The package does not register ${name}; it registers ${offered || 'nothing'}. Assign ${name} in index.ts.`,
    );
  }
}

const NO_HANDSHAKE =
  'channel.handshake: not called: the service queues this request for channel.receive. Handshakes are GET and OPTIONS, and POST ' +
  `if channel.handshakeOn selects it, with a body of at most ${HANDSHAKE_MAX_BYTES} bytes.`;
const NO_MESSAGES = { messages: [] };
const NO_REPLY = {
  conversationKey: 'conversation-1',
  text: '',
  attachments: [],
  deliveryId: 'delivery-1',
  attempt: 1,
  channelId: 'channel-1',
};

const isFailure = (result: LinkResult) => result.kind !== 'answered' && result.kind !== 'cancelled';

/** Reminders are delivered by the host itself, so this hook has no caller that sends a trigger. */
const hostTrigger = (hook: HookName): Trigger =>
  hook === 'middleware.notifyDeliver' ? 'schedule' : defaultTrigger(hook);

/** Folds one link's result like the service's chain. */
function foldHook(hook: HookName, context: Fields, answer: LinkResult) {
  const link = { installationId: 'installation-1', slug: 'plugin', displayName: 'Plugin', required: false };
  const { state, fault } = foldLink(hook, startChain(context), link, answer, 0);
  const { cancelled, trace } = state;
  const { summary } = state.context;
  // A plugin that returns nothing leaves the summary to the built-in summarizer.
  const summaryFault = typeof summary === 'string' ? findSummaryFault(trace[0], summary) : null;
  return {
    fault: summaryFault === null ? fault : `${hook} ${summaryFault}`,
    result: {
      action: cancelled ? 'cancel' : 'continue',
      context: state.context,
      changed: trace[0]?.outcome === 'changed',
      reason: cancelled?.reason ?? null,
    },
  };
}

const REQUEST_FIELDS = {
  method: true,
  headers: true,
  body: true,
  query: true,
  channelId: true,
  routingId: true,
  deliveryId: true,
  attempt: true,
  receivedAt: true,
} as const satisfies Record<keyof VendorRequest, true>;

function toDelivery(request: VendorRequest) {
  // The plugin's own request has `bodyText` and `bodyBytes`: ignored, the signature of an empty body would be wrong.
  refuseUnknownFields('the request', request, REQUEST_FIELDS);
  const { method = 'POST', headers = {}, body = '', query = '' } = request;
  const { channelId = 'channel-1', routingId = 'routing-1', deliveryId = randomUUID(), attempt = 1 } = request;
  const { receivedAt = new Date().toISOString() } = request;
  return {
    id: deliveryId,
    attempt,
    channelId,
    routingId,
    receivedAt,
    method,
    query,
    headers: Object.entries(headers),
    body: Buffer.from(body),
  };
}

/** Finds a hook, with or without `middleware.`. @throws Error that suggests the nearest name */
function findHook(name: string): HookName {
  for (const full of [name, `middleware.${name}`]) if (Object.hasOwn(hooks, full)) return full as HookName;
  throw new Error(`No hook is named ${name}; did you mean ${closest(name, Object.keys(hooks))}?`);
}
