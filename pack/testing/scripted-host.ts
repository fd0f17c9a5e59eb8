/**
 * A `host` scripted by the test, with the service's rules for grants, arguments and results, and an error for every
 * unscripted call.
 */
import { readFile, stat } from 'node:fs/promises';
import { closest } from 'fastest-levenshtein';
import { verifySignature } from '../../sandbox-child/webhook-signatures.ts';
import type { FolderFile } from '../../sdk/cli/local-tools.ts';
import { isGranted, listGrantedCalls } from '../../sdk/contract/capabilities.ts';
import { describeFieldFault } from '../../sdk/contract/field-faults.ts';
import { hostExamples } from '../../sdk/contract/host-examples.ts';
import { type HostCallName, hostCalls } from '../../sdk/contract/protocol.ts';
import type { HostRow } from '../../sdk/contract/rows.ts';
import type { HostScript, MadeCall } from '../../sdk/testing/testing.ts';
import type { HostCall } from '../../supervisor/children/child.ts';
import { HostCallRefusal } from '../../supervisor/children/child-errors.ts';
import { type FindFile, readAsset, readAssetText } from '../../supervisor/host/assets.ts';
import { admitSecrets, checkArguments, checkResult } from '../../supervisor/host/call-checks.ts';
import { type HostArgs, requireScopeSession } from '../../supervisor/host/host-call.ts';
import { answerBodyCall, isBodyCall, readOpening } from '../../supervisor/host/http/body-calls.ts';
import { readTarget } from '../../supervisor/host/http/reach.ts';
import { readRequest } from '../../supervisor/host/http/request.ts';
import { SecretHandles, type SecretSource, WEBHOOKS_USE } from '../../supervisor/host/secret-handles.ts';
import { SecretMask } from '../../supervisor/records/secret-mask.ts';
import { completeAnswer, ScriptedBodies, WrongBody } from './scripted-bodies.ts';
import { ScriptedStorage } from './scripted-storage.ts';

type Answer = (args: Readonly<Record<string, unknown>>) => unknown;
/** Maximum number of host calls stored for the test. */
const CALLS_MAX = 10_000;
const NAMES = Object.keys(hostCalls) as HostCallName[];

interface ScriptedSecrets {
  readonly values: Readonly<Record<string, string>>;
  /** By secret that the package declares: how the host uses it. Null: the plugin reads its value. */
  readonly uses: Readonly<Record<string, readonly string[] | null>>;
}

export class ScriptedHost {
  /** Host calls so far. */
  readonly calls: MadeCall[] = [];
  readonly #granted: readonly string[];
  readonly #answers: ReadonlyMap<string, Answer>;
  #mistake: Error | null = null;

  readonly #bodies = new ScriptedBodies();
  readonly #handles = new SecretHandles();
  readonly #source: SecretSource;
  /** Masks the secrets in what leaves the plugin, as the service does. */
  readonly mask = new SecretMask();

  /** @throws Error when the script names an unknown host call, or one that the plugin has no grant for */
  constructor(
    granted: readonly string[],
    script: HostScript,
    { values, uses }: ScriptedSecrets,
    files: readonly FolderFile[],
  ) {
    this.#granted = granted;
    for (const [name, value] of Object.entries(values)) this.mask.add(name, value);
    this.#source = {
      installationId: 'test',
      names: Object.keys(uses),
      read: async (name) => {
        if (!Object.hasOwn(values, name) || !Object.hasOwn(uses, name)) return null;
        return { value: values[name] ?? '', uses: uses[name] ?? null };
      },
    };
    this.#answers = new Map([...defaults(this.#handles, this.#source), ...assets(files), ...scripted(script, granted)]);
  }

  get members(): string[] {
    return listGrantedCalls(this.#granted);
  }

  /** Mistakes of the test since the last call, even if the plugin has caught them; null: none. */
  takeMistake(): Error | null {
    const mistake = this.#mistake;
    this.#mistake = null;
    return mistake;
  }

  /**
   * @param isInSession whether the handler that makes the call runs for a session
   * @throws HostCallRefusal with a text that the plugin may read
   */
  async answer(call: HostCall, isInSession: boolean): Promise<unknown> {
    if (isBodyCall(call)) return answerBodyCall(this.#bodies, call);
    const { request, bodyId } = readOpening(call);
    const { member, args: given } = request;
    const name = member as HostCallName;
    const row: HostRow | undefined = Object.hasOwn(hostCalls, name) ? hostCalls[name] : undefined;
    if (!row || !isGranted(row, this.#granted)) throw new HostCallRefusal('denied', `host.${member} is not granted`);
    const named = read(() => admitSecrets(name, row, this.mask, checkArguments(name, row, given)));
    const args = name === 'http.fetch' ? await this.#fillRequest(named as HostArgs<'http.fetch'>) : named;
    if (this.calls.length < CALLS_MAX) this.calls.push({ name, args });
    if (row.capability === 'session')
      await runScripted(name, () => requireScopeSession({ session: isInSession ? {} : null }));
    const answer = this.#answers.get(name);
    if (!answer) throw this.#blame(unscripted(name));
    let result = await runScripted(name, async () => this.#bodies.accept(await answer(args), bodyId));
    try {
      if (name === 'http.fetch') result = completeAnswer(result);
      const checked = checkResult(name, row, result);
      return bodyId !== null && this.#bodies.has(bodyId) ? { ...(checked as object), isOpen: true } : checked;
    } catch (error) {
      const why = describeWrongResult(row, result, error as Error);
      throw this.#blame(`host.${name} is scripted with an answer that the service never gives: ${why}.`);
    }
  }

  /** As the service sends it: with the values of handles in the headers. @throws HostCallRefusal for what the service refuses */
  async #fillRequest(args: HostArgs<'http.fetch'>): Promise<Record<string, unknown>> {
    try {
      const target = readTarget(args.url, this.#granted);
      readRequest(target, args, { handles: this.#handles, source: this.#source });
      const { init } = args;
      if (!init?.headers) return { ...args };
      const place = { hostname: target.hostname, isSafe: target.protocol === 'https:' };
      const headers = await this.#handles.fillHeaders(init.headers, place, this.#source);
      return { ...args, init: { ...init, headers } };
    } catch (error) {
      throw new HostCallRefusal('failed', `host.http.fetch: ${(error as Error).message}`);
    }
  }

  #blame(message: string): HostCallRefusal {
    this.#mistake ??= new Error(message);
    return new HostCallRefusal('failed', message);
  }
}

function describeWrongResult(row: HostRow, result: unknown, error: Error): string {
  if (error instanceof WrongBody) return error.message;
  const issue = row.result.safeParse(result, { error: describeFieldFault }).error?.issues[0];
  return issue ? [issue.path.join('.'), issue.message].filter(Boolean).join(': ') : error.message;
}

function read<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new HostCallRefusal('failed', (error as Error).message);
  }
}

/** An error thrown by a scripted call, or by a check of the service, is the call's failure, which the plugin may catch. */
async function runScripted(name: string, work: () => unknown): Promise<unknown> {
  try {
    return await work();
  } catch (error) {
    throw new HostCallRefusal('failed', `host.${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function unscripted(name: HostCallName): string {
  const [member, call] = name.split('.');
  const { result } = hostExamples[name] as { result: unknown };
  const example = result instanceof Object && !Array.isArray(result) ? `(${formatValue(result)})` : formatValue(result);
  return `The plugin called host.${name}, and the test does not say what it answers: give { host: { ${member}: { ${call}: () => ${example} } } }.`;
}

function formatValue(value: unknown): string {
  if (value === undefined) return 'undefined';
  if (value instanceof Uint8Array) return `new Uint8Array([${[...value].join(', ')}])`;
  const json = JSON.stringify(value, (_key, part) => (part instanceof Uint8Array ? '…bytes' : part));
  return json.replaceAll('"…bytes"', 'new Uint8Array()');
}

/** Secrets come from the options; stored values are kept while the plugin is open. */
function defaults(handles: SecretHandles, source: SecretSource): [string, Answer][] {
  const storage = new ScriptedStorage();
  return [
    [
      'secrets.get',
      async ({ name }) => {
        const secret = await source.read(String(name));
        return secret && (secret.uses === null ? secret.value : handles.make('test', String(name)));
      },
    ],
    [
      'secrets.verify',
      async (args) => {
        const { scheme, handle, options, ...request } = args as HostArgs<'secrets.verify'>;
        const secret = await handles.open(handle, WEBHOOKS_USE, source);
        return verifySignature(scheme, request, secret, options);
      },
    ],
    ['storage.get', ({ key }) => storage.get(String(key))],
    ['storage.set', ({ key, value }) => storage.set(String(key), value)],
    ['storage.delete', ({ key }) => storage.delete(String(key))],
    ['storage.list', ({ prefix = '' }) => storage.list(String(prefix))],
  ];
}

/** The package's own. */
function assets(files: readonly FolderFile[]): [string, Answer][] {
  const find: FindFile = async (path) => {
    const file = files.find((one) => one.path === path);
    return file ? { sizeBytes: (await stat(file.at)).size, load: () => readFile(file.at) } : null;
  };
  return [
    ['assets.read', ({ path }) => readAsset(find, String(path))],
    ['assets.readText', ({ path }) => readAssetText(find, String(path))],
  ];
}

function scripted(script: HostScript, granted: readonly string[]): [string, Answer][] {
  return Object.entries(script).flatMap(([member, calls]) =>
    Object.entries(calls ?? {}).map(([call, answer]): [string, Answer] => {
      const name = `${member}.${call}`;
      if (!Object.hasOwn(hostCalls, name))
        throw new Error(`host: host.${name} does not exist; did you mean host.${closest(name, NAMES)}?`);
      const row: HostRow = hostCalls[name as HostCallName];
      if (!isGranted(row, granted)) throw new Error(ungranted(name, row));
      return [name, typeof answer === 'function' ? (answer as Answer) : () => answer];
    }),
  );
}

function ungranted(name: string, row: HostRow): string {
  const capability = row.capability === 'http' ? 'host.http:<host>' : `host.${row.capability}`;
  return `host: host.${name} is scripted, but the plugin is not granted it: declare ${capability} in readme.md, and do not leave it out of grants.`;
}
