/** Asks the user of an MCP client for what an installation lacks to run, so that a call of it can continue. */
import { randomUUID } from 'node:crypto';
import { addAbortListener } from 'node:events';
import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js';
import type {
  ElicitRequestFormParams,
  ElicitResult,
  RequestId,
  ServerNotification,
  ServerRequest,
} from '@modelcontextprotocol/sdk/types.js';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { checkConfiguration, mergeManifests, saveSettings } from '../../db/installations/configuration.ts';
import { findInstallation, type Installation, lockInstallation } from '../../db/installations/installations.ts';
import { notifyInstallationChanged } from '../../db/postgres/notifications.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { isStorable, UNSTORABLE } from '../../db/postgres/storable-json.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { getOwn } from '../../sdk/contract/get-own.ts';
import { findMissingConfiguration, type Manifest, SETTING_MAX_CHARS } from '../../sdk/contract/manifest.ts';
import type { Caller } from '../../service/identity/caller.ts';
import { isAllowed, REST_SCOPES } from '../../service/identity/scopes.ts';
import type { SessionServices } from '../sessions/session-services.ts';

/** Clients give up a call after 60 s by default, and the call itself needs some of them. Milliseconds. */
const QUESTION_MS = 45_000;

/** The call that cannot continue, and the client that made it. */
interface WaitingCall {
  readonly server: Server;
  readonly requestId: RequestId;
  readonly caller: Caller;
  /** Aborts when the client cancels the call or leaves, and when its token ends. */
  readonly signal: AbortSignal;
}
interface Missing {
  readonly settings: readonly string[];
  readonly secrets: readonly string[];
}
/** The outcome of a question. Null: the installation can run. */
type Outcome = string | null;

/** The fields that a version lacks. */
interface VersionForm {
  readonly versionId: string | null;
  readonly requestedSchema: ElicitRequestFormParams['requestedSchema'];
}
/** The values that the user gave for the fields of a version. */
interface VersionAnswer {
  readonly versionId: string | null;
  readonly values: Readonly<Record<string, unknown>>;
}

interface OpenQuestion {
  readonly outcome: Promise<Outcome>;
  /** The call whose client is asked. */
  readonly asker: WaitingCall;
}

const NOT_ASKED = 'Its user must do this.';
const DECLINED = 'The user was asked and did not answer with values.';
const UNANSWERED = 'The user was asked and did not answer in time.';
const CLIENT_FAULT = 'The client answered the question with an error or in an unknown form.';
const VERSION_CHANGED =
  'The user was asked about a version that was replaced before the answer, so the answer was not saved.';

export class SetupQuestions {
  readonly #services: SessionServices;
  readonly #consoleUrl: string;
  readonly #questionMs: number;
  /** By installation: concurrent calls share one question. */
  readonly #open = new Map<string, OpenQuestion>();

  constructor(services: SessionServices, consoleUrl: string, questionMs = QUESTION_MS) {
    this.#services = services;
    this.#consoleUrl = consoleUrl;
    this.#questionMs = questionMs;
  }

  /** @returns null: the plugin can run; otherwise what it lacks and where to set it, for the agent and its user */
  async configure(plugin: InstalledPlugin, call: WaitingCall): Promise<string | null> {
    const outcome = mayAsk(call) ? await this.#ask(plugin, call) : NOT_ASKED;
    if (outcome === null) return null;
    const installation = await this.#find(plugin);
    const lacking = installation ? listMissing(installation) : { settings: [], secrets: [] };
    const names = [...lacking.settings, ...lacking.secrets].join(', ');
    return `“${plugin.slug}” cannot run before it has ${names || 'its settings'}. ${outcome} Set what is missing at ${this.#addressOf(plugin)}, then call again.`;
  }

  async #ask(plugin: InstalledPlugin, call: WaitingCall): Promise<Outcome> {
    const { installationId } = plugin;
    for (let open = this.#open.get(installationId); open; open = this.#open.get(installationId)) {
      const outcome = await open.outcome;
      // A client that has left, cannot answer, or can be asked less, must not answer for this one.
      const isOthers =
        outcome === NOT_ASKED ||
        (outcome === CLIENT_FAULT && open.asker.server !== call.server) ||
        (outcome !== null && open.asker.signal.aborted);
      if (!isOthers || call.signal.aborted) return outcome;
    }
    const outcome = this.#askOnce(plugin, call).finally(() => this.#open.delete(installationId));
    this.#open.set(installationId, { outcome, asker: call });
    return outcome;
  }

  async #askOnce(plugin: InstalledPlugin, call: WaitingCall): Promise<Outcome> {
    const installation = await this.#find(plugin);
    if (!installation?.currentManifest) return NOT_ASKED;
    const { settings, secrets } = listMissing(installation);
    const { form, url } = call.server.getClientCapabilities()?.elicitation ?? {};
    let outcome: Outcome = null;
    if (secrets.length > 0 || (settings.length > 0 && !form))
      outcome = url ? await this.#sendToConsole(plugin, call) : NOT_ASKED;
    else if (settings.length > 0)
      outcome = await this.#sendForm(plugin, call, {
        versionId: installation.currentVersionId,
        requestedSchema: describeForm(installation.currentManifest, settings),
      });
    // The notification of the change may arrive after the call continues.
    if (outcome === null) this.#services.pluginsCache.drop(plugin.accountId);
    return outcome;
  }

  /** @throws the database's error */
  async #sendForm(
    plugin: InstalledPlugin,
    call: WaitingCall,
    { versionId, requestedSchema }: VersionForm,
  ): Promise<Outcome> {
    const message = `The plugin “${plugin.displayName}” (${plugin.slug}) needs settings before it can run. Its author wrote the names and descriptions of the fields. Enter no passwords or keys.`;
    const answer = await this.#elicit({ mode: 'form', message, requestedSchema }, call, call.signal);
    if (typeof answer === 'string') return answer;
    if (answer.action !== 'accept') return DECLINED;
    try {
      await this.#save(plugin, call, { versionId, values: answer.content ?? {} });
      return null;
    } catch (error) {
      // The message of a problem with fields is not a sentence.
      if (error instanceof Problem)
        return error.code === 'bad_request' && error.errors
          ? `The user’s answer was not saved: ${error.message}.`
          : error.message;
      if (call.signal.aborted) return UNANSWERED;
      throw error;
    }
  }

  /** Secrets never pass through the client: the user enters them in the console. */
  async #sendToConsole(plugin: InstalledPlugin, call: WaitingCall): Promise<Outcome> {
    const { server, signal, requestId } = call;
    const ended = new AbortController();
    const deadline = AbortSignal.any([signal, ended.signal, AbortSignal.timeout(this.#questionMs)]);
    const configured = this.#waitUntilConfigured(plugin, deadline);
    const elicitationId = randomUUID();
    const message = `The plugin “${plugin.displayName}” (${plugin.slug}) needs settings before it can run. Set them on its page in the console.`;
    const url = this.#addressOf(plugin);
    try {
      const answering = this.#elicit({ mode: 'url', message, elicitationId, url }, call, deadline);
      // The user may also know the page, and answer nothing.
      const isDone = async (): Promise<ElicitResult | string | true> => (await configured) || answering;
      const answer = await Promise.race([answering, isDone()]);
      if (typeof answer === 'string') return answer;
      if (answer !== true && answer.action !== 'accept') return DECLINED;
      if (!(await configured)) return UNANSWERED;
      const complete = server.createElicitationCompletionNotifier(elicitationId, { relatedRequestId: requestId });
      // A client that has left needs no notification.
      await complete().catch(() => undefined);
      return null;
    } finally {
      ended.abort();
    }
  }

  /**
   * @param signal aborts the question
   * @returns a sentence where no answer came: the time was over, the client left, or it answered with an error
   */
  async #elicit(
    question: Parameters<Server['elicitInput']>[0],
    { server, requestId }: WaitingCall,
    signal: AbortSignal,
  ): Promise<ElicitResult | string> {
    // Loaded on demand, because the routes import this file. A connection has loaded the library before.
    const { ElicitResultSchema, ErrorCode, McpError } = await import('@modelcontextprotocol/sdk/types.js');
    // The library would cancel a question that was answered, if its signal aborted later.
    const asking = new AbortController();
    const abort = (): void => asking.abort(signal.reason);
    if (signal.aborted) abort();
    using _listening = addAbortListener(signal, abort);
    try {
      const options = { timeout: this.#questionMs, signal: asking.signal, relatedRequestId: requestId };
      // Not `server.elicitInput`: its check of the values does not say which field is wrong in words for users.
      return await server.request({ method: 'elicitation/create', params: question }, ElicitResultSchema, options);
    } catch (error) {
      const isCut =
        error instanceof McpError && [ErrorCode.RequestTimeout, ErrorCode.ConnectionClosed].includes(error.code);
      return signal.aborted || isCut ? UNANSWERED : CLIENT_FAULT;
    }
  }

  async #waitUntilConfigured({ accountId, installationId }: InstalledPlugin, deadline: AbortSignal): Promise<boolean> {
    const { pluginsCache } = this.#services;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const look = async (): Promise<void> => {
      const { plugins } = await pluginsCache.get(accountId);
      if (plugins.some((plugin) => plugin.installationId === installationId)) resolve(true);
    };
    const unwatch = pluginsCache.watch((changed) => {
      // A failed query is repeated with the next change; the deadline ends the wait.
      if (changed === null || changed === accountId) void look().catch(() => undefined);
    });
    void look().catch(() => undefined);
    using _listening = addAbortListener(deadline, () => resolve(false));
    return await promise.finally(unwatch);
  }

  /** @throws Problem when the answer breaks a rule of the settings; an error when the caller has left */
  async #save(
    { accountId, installationId }: InstalledPlugin,
    { signal }: WaitingCall,
    answer: VersionAnswer,
  ): Promise<void> {
    const { pool, queues } = this.#services;
    await inTransaction(
      pool,
      async (tx) => {
        const locked = await lockInstallation(tx, accountId, installationId);
        if (!locked?.currentManifest) throw new Problem('not_found', 'It was uninstalled.');
        // Settings that the user made elsewhere meanwhile stay.
        const { settings: missing } = listMissing(locked);
        // Another version may give a setting of the same name another meaning.
        if (missing.length > 0 && locked.currentVersionId !== answer.versionId)
          throw new Problem('bad_request', VERSION_CHANGED);
        const settings = readSettings(answer.values, missing);
        checkConfiguration(mergeManifests(locked.currentManifest, locked.targetManifest), locked, { settings });
        await saveSettings(tx, queues, locked, settings);
        await notifyInstallationChanged(tx, installationId);
      },
      signal,
    );
    await this.#services.finishUpdate(installationId);
  }

  #find({ accountId, installationId }: InstalledPlugin): Promise<Installation | null> {
    return findInstallation(this.#services.pool, accountId, installationId);
  }

  readonly #addressOf = ({ installationId }: InstalledPlugin): string =>
    `${this.#consoleUrl}/installations/${installationId}`;
}

/** The library passes it to handlers beside the request. */
export type HandlerExtra = RequestHandlerExtra<ServerRequest, ServerNotification>;

/** The facts of the request that brought a message, for its handler. */
export interface RequestFacts {
  readonly caller: Caller;
  /** Aborts when the response ends: the client left, or its token ended. */
  readonly left: AbortSignal;
}

/** @param extra what the library passes to handlers; the route has put the request's facts into it */
export function describeCall(server: Server, { authInfo, requestId, signal }: HandlerExtra): WaitingCall {
  if (!authInfo?.extra) throw new Error('the route gave no facts of the request');
  const { caller, left } = authInfo.extra as unknown as RequestFacts;
  return { server, requestId, caller, signal: AbortSignal.any([signal, left]) };
}

/** Whether the client can ask its user anything. */
export function canElicit(server: Server): boolean {
  const { form, url } = server.getClientCapabilities()?.elicitation ?? {};
  return form !== undefined || url !== undefined;
}

/** Whether this caller may change installations, as in the REST interface. */
export const mayConfigure = ({ scopes }: Caller): boolean => isAllowed(scopes, REST_SCOPES.write);

const mayAsk = ({ server, caller }: WaitingCall): boolean => canElicit(server) && mayConfigure(caller);

function listMissing({ currentManifest, settings, secretNames }: Installation): Missing {
  if (!currentManifest) return { settings: [], secrets: [] };
  const withoutSecrets = { ...currentManifest, secrets: {} };
  const withoutSettings = { ...currentManifest, settings: {} };
  return {
    settings: findMissingConfiguration(withoutSecrets, settings, secretNames),
    secrets: findMissingConfiguration(withoutSettings, settings, secretNames),
  };
}

function describeForm(manifest: Manifest, names: readonly string[]): ElicitRequestFormParams['requestedSchema'] {
  const fields = names.map((name) => {
    const { label = name, description, enum: options } = manifest.settings[name] ?? {};
    const texts = { type: 'string' as const, title: label, ...(description === undefined ? {} : { description }) };
    // An empty value counts as missing.
    const values = options
      ? { enum: options.filter((option) => option !== '') }
      : { minLength: 1, maxLength: SETTING_MAX_CHARS };
    return [name, { ...texts, ...values }] as const;
  });
  return { type: 'object', properties: Object.fromEntries(fields), required: [...names] };
}

/** The answer's values of these settings. Other fields are ignored. @throws Problem `bad_request` that names the fields without a text */
function readSettings(answer: Readonly<Record<string, unknown>>, names: readonly string[]): Record<string, string> {
  const values = names.flatMap((name): [string, string][] => {
    const value = getOwn(answer, name);
    return typeof value === 'string' && value !== '' ? [[name, value]] : [];
  });
  const lacking = names.filter((name) => !values.some(([given]) => given === name));
  if (lacking.length > 0) throw new Problem('bad_request', `The user’s answer has no text for ${lacking.join(', ')}.`);
  const unstorable = values.find(([, value]) => !isStorable(value));
  if (unstorable) throw new Problem('bad_request', `The user’s answer for ${unstorable[0]} ${UNSTORABLE}.`);
  return Object.fromEntries(values);
}
