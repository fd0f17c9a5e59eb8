/** One run against a deployment: its accounts, and what rows make once and share. */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Account, type Addresses, type Answer } from './account.ts';
import { describeError, ensure, expect, Mismatch, Skipped } from './expect.ts';
import { type LogLine, LogWatch } from './log-watch.ts';
import { fileList, type Package, packageOf } from './packages.ts';
import { kitPackage } from './plugins/kit.ts';

const POLL_MS = 150;
const WAIT_MS = 20_000;
/** Statuses of a removal: it is done or under way, or something else removed it before. */
const REMOVED = new Set([200, 202, 204, 404]);
/** What a response shows of itself where a removal failed. */
const SHOWN_CHARS = 200;

interface PublishedPlugin {
  readonly id: string;
  readonly slug: string;
  readonly versionId: string;
}
export type InstalledDraft = Omit<InstalledPlugin, 'versionId'>;
export interface InstalledPlugin extends PublishedPlugin {
  readonly installationId: string;
}

interface Removal {
  /** Names it for the report of a removal that failed. */
  readonly what: string;
  /** @param own client of the own account, whose other calls are refused by then */
  remove(own: Account): Promise<Answer>;
}

export class Run {
  readonly addresses: Addresses;
  readonly own: Account;
  readonly #other: Account | null;
  readonly #made = new Map<string, Promise<unknown>>();
  readonly #watches: LogWatch[] = [];
  readonly #removals: Removal[] = [];
  #number = 0;
  readonly #name = `conform-${randomBytes(4).toString('hex')}`;

  /** @param other token of a second account; null: rows about other accounts are skipped */
  constructor(addresses: Addresses, token: string, other: string | null) {
    this.addresses = addresses;
    this.own = new Account(addresses, token);
    this.#other = other === null ? null : new Account(addresses, other);
  }

  get other(): Account {
    if (this.#other === null) throw new Skipped('needs a second account: --other <token>');
    return this.#other;
  }

  /** Milliseconds, of a clock that stands while rate limits hold the run back. */
  now(): number {
    return Date.now() - this.own.waitedMs - (this.#other?.waitedMs ?? 0);
  }

  /** A slug that no other run uses. */
  slug(name: string): string {
    return `${this.#name}-${name}`;
  }

  /** A number that no other row gets. */
  nextNumber(): number {
    this.#number += 1;
    return this.#number;
  }

  /** A version number that no row publishes. */
  unusedSemVer(): string {
    return `9.${this.nextNumber()}.0`;
  }

  /** Makes something on the first use and gives the same to every row. */
  once<T>(name: string, make: () => Promise<T>): Promise<T> {
    const made = (this.#made.get(name) as Promise<T> | undefined) ?? make();
    this.#made.set(name, made);
    return made;
  }

  async createPlugin(name: string): Promise<{ id: string; slug: string }> {
    const slug = this.slug(name);
    const { id } = await this.own.need(this.own.post('/plugins', { slug, displayName: `Conform ${name}` }), 201);
    return { id, slug };
  }

  /** Creates a plugin and publishes its version 1.0.0. */
  async publish(name: string, content: Package = packageOf()): Promise<PublishedPlugin> {
    const plugin = await this.createPlugin(name);
    const version = await this.own.need(this.own.publishFiles(plugin.id, '1.0.0', fileList(content)), 201);
    return { ...plugin, versionId: version.id };
  }

  async install(name: string, content: Package, body: object = {}): Promise<InstalledPlugin> {
    return this.#install(await this.publish(name, content), body);
  }

  /** Creates a plugin and installs its draft. `close` can delete such a plugin, because it has no published version. */
  async installDraft(name: string, content: Package, body: object = {}): Promise<InstalledDraft> {
    const plugin = await this.createPlugin(name);
    await this.own.need(this.own.post(`/plugins/${plugin.id}/draft`, { files: fileList(content) }));
    return this.#install(plugin, { versionPolicy: 'Draft', ...body });
  }

  async #install<Plugin extends { readonly slug: string }>(plugin: Plugin, body: object) {
    const made = await this.own.need(this.own.post('/installations', { slug: plugin.slug, ...body }), 201);
    return { ...plugin, installationId: made.id as string };
  }

  /** A listed plugin of the own account that only answers prompts. Rows do not change it. */
  plain(): Promise<PublishedPlugin> {
    return this.once('plain', async () => {
      const plugin = await this.publish('plain');
      await this.own.need(this.own.post(`/plugins/${plugin.id}/listing`));
      return plugin;
    });
  }

  /** The installed plugin that does what its callers ask of it; see `plugins/kit.ts`. Configured and running. */
  kit(): Promise<InstalledPlugin & { readonly watch: LogWatch }> {
    return this.once('kit', async () => {
      const kit = await this.install('kit', kitPackage);
      const watch = await this.watch(kit.installationId);
      const configure = { secrets: { apiKey: 'conform-secret-value' } };
      await this.own.need(this.own.post(`/installations/${kit.installationId}/configure`, configure));
      return { ...kit, watch };
    });
  }

  async watch(installationId: string): Promise<LogWatch> {
    const watch = await LogWatch.open(this.own, installationId);
    this.#watches.push(watch);
    return watch;
  }

  /** A session that rows share and that none clears or deletes. */
  session(): Promise<string> {
    return this.once('session', () => this.newSession('conform-agent'));
  }

  async newSession(agentId: string, account = this.own): Promise<string> {
    return (await account.need(account.session('POST', '/sessions', { agentId }), 201)).id;
  }

  /** Runs a hook of all installed plugins in the shared session. */
  async hook(name: string, context: object, sessionId?: string): Promise<Answer> {
    await this.kit();
    const session = sessionId ?? (await this.session());
    return this.own.session('POST', `/sessions/${session}/hooks/${name}`, { context });
  }

  /** Calls a tool of the kit and answers with what the handler returned. @throws Mismatch if it failed */
  // biome-ignore lint/suspicious/noExplicitAny: handlers return values of every shape
  async tool(name: string, args: object = {}, sessionId?: string): Promise<any> {
    const { status, body } = await this.callTool(name, args, sessionId);
    expect({ status, body }, { status: 200, body: { isError: false } }, `the tool ${name}`);
    const { text } = body.content[0];
    return /^[[{]/.test(text) ? JSON.parse(text) : text;
  }

  /** Lets the kit write its log lines, and waits for one of them. @param kind first word of the line: see `tools.log` of the kit */
  async writeLog(mark: string, kind = 'info', sessionId?: string): Promise<LogLine> {
    const { watch } = await this.kit();
    await this.tool('log', { mark }, sessionId);
    return watch.find(`${kind} ${mark}`, ({ message }) => message === `${kind} ${mark}`);
  }

  async callTool(name: string, args: object = {}, sessionId?: string): Promise<Answer> {
    const { slug } = await this.kit();
    const session = sessionId ?? (await this.session());
    const path = `/sessions/${session}/tools/${slug}__${name}`;
    return this.own.session('POST', path, { callId: randomBytes(8).toString('hex'), arguments: args });
  }

  /** Calls a host member inside the kit. */
  // biome-ignore lint/suspicious/noExplicitAny: host calls return values of every shape
  host(member: string, ...args: readonly unknown[]): Promise<any> {
    return this.tool('host', { member, args });
  }

  /** The address of a channel as this machine reaches it. */
  webhookAddress(shown: string): string {
    const { webhooks } = this.addresses;
    return webhooks === null ? shown : `${webhooks}/webhook/plugin/${shown.split('/').at(-1)}`;
  }

  /** Repeats a look until it answers something. @throws Mismatch when it does not */
  async until<T>(what: string, look: () => Promise<T | false | null | undefined>): Promise<T> {
    for (const end = this.now() + WAIT_MS; ; ) {
      const found = await look();
      if (found) return found;
      if (this.now() > end) throw new Mismatch(`${what} did not happen within ${WAIT_MS / 1000} s`);
      await sleep(POLL_MS);
    }
  }

  /** @throws Mismatch unless the deployment declares an operation, such as `POST /sessions/{id}/turns` */
  async requireOperation(port: 'rest' | 'sessions', operation: string): Promise<void> {
    const document = await this.document(port);
    const [method = '', path = ''] = operation.split(' ');
    const plain = (text: string) => text.replaceAll(/\{\w+\}/g, '{}');
    const found = Object.entries(document.paths).some(
      ([name, methods]) => plain(name) === plain(path) && method.toLowerCase() in (methods as object),
    );
    ensure(found, `the OpenAPI document does not declare ${operation}`);
  }

  /** The OpenAPI document of a port. */
  // biome-ignore lint/suspicious/noExplicitAny: rows look into every part of a document
  document(port: 'rest' | 'sessions'): Promise<any> {
    return this.once(`document ${port}`, () =>
      this.own.need(port === 'rest' ? this.own.get('/openapi.json') : this.own.session('GET', '/openapi.json')),
    );
  }

  /** Removes something at the end of the run that is no plugin, installation or session. */
  onClose(what: string, remove: Removal['remove']): void {
    this.#removals.push({ what, remove });
  }

  /**
   * Ends its streams and removes what it created. Plugins with a published version cannot be deleted; they are delisted. A
   * removal that fails does not stop the others. Rows that took too long still run: their further calls are refused, so they
   * create nothing that would be left.
   *
   * @returns what is left, a line each with the reason
   */
  async close(): Promise<string[]> {
    for (const watch of this.#watches) watch.close();
    const left: (string | null)[] = [];
    const own = this.own.close();
    for (const { what, remove } of this.#removals) left.push(await attemptRemoval(what, remove(own)));
    const accounts = [{ client: own, created: this.own.created }];
    if (this.#other) accounts.push({ client: this.#other.close(), created: this.#other.created });
    for (const kind of ['sessions', 'installations', 'plugins'] as const) {
      const removals = accounts.flatMap(({ client, created }) =>
        created
          .filter((one) => one.kind === kind)
          .map(({ id }) => attemptRemoval(`${kind}/${id}`, removeCreated(client, kind, id))),
      );
      left.push(...(await Promise.all(removals)));
    }
    return left.filter((line) => line !== null);
  }
}

async function removeCreated(account: Account, kind: string, id: string): Promise<Answer> {
  if (kind === 'sessions') return account.session('DELETE', `/sessions/${id}`);
  const answer = await account.delete(`/${kind}/${id}`);
  return answer.body?.code === 'published_version_exists' ? account.delete(`/plugins/${id}/listing`) : answer;
}

/** @returns null: it is removed; else a line with the reason why not */
async function attemptRemoval(what: string, removal: Promise<Answer>): Promise<string | null> {
  try {
    const { status, text } = await removal;
    return REMOVED.has(status) ? null : `${what}: ${status} ${text.slice(0, SHOWN_CHARS)}`;
  } catch (error) {
    return `${what}: ${describeError(error)}`;
  }
}
