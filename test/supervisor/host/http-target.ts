/** `host.http` as a plugin calls it, in this process, against servers of the test that are found by a DNS server of the test. */

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import { hostCalls } from '../../../sdk/contract/protocol.ts';
import { holdGrant } from '../../../supervisor/host/held-grant.ts';
import type { HostArgs, HostResult } from '../../../supervisor/host/host-call.ts';
import type { BodyMemory } from '../../../supervisor/host/http/body-memory.ts';
import type { BodyPart, StreamBounds } from '../../../supervisor/host/http/body-streams.ts';
import type { Exchange } from '../../../supervisor/host/http/exchange.ts';
import { openHttp } from '../../../supervisor/host/http/http.ts';
import type { RequestRates } from '../../../supervisor/host/http/request-rates.ts';
import { LiveInstallation } from '../../../supervisor/host/live-installation.ts';
import { ResultTurns } from '../../../supervisor/host/result-turns.ts';
import { type MaskedSource, SecretHandles } from '../../../supervisor/host/secret-handles.ts';
import { SecretMask } from '../../../supervisor/records/secret-mask.ts';
import { type Teardown, temporaryFolder } from '../../runner/harness.ts';
import { type DnsServer, startDns } from './dns-server.ts';

/** A certificate of `api.test` that signs itself, as PEM. Needs the program `openssl`. */
export async function makeCertificate(
  test: Teardown,
  keyKind: 'ec' | 'rsa',
): Promise<{ readonly key: string; readonly cert: string }> {
  const folder = await temporaryFolder(test);
  const files = { key: join(folder, 'key.pem'), cert: join(folder, 'cert.pem'), config: join(folder, 'openssl.cnf') };
  // The system's own configuration is there only where openssl is installed.
  writeFileSync(files.config, '[req]\ndistinguished_name = name\n[name]\n');
  const newKey = {
    ec: ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'],
    rsa: ['-newkey', 'rsa:2048'],
  };
  execFileSync(
    'openssl',
    [
      ...['req', '-config', files.config, '-x509', ...newKey[keyKind], '-nodes', '-days', '2'],
      ...[
        '-subj',
        '/CN=api.test',
        '-addext',
        'subjectAltName=DNS:api.test,IP:127.0.0.1',
        '-keyout',
        files.key,
        '-out',
        files.cert,
      ],
    ],
    { stdio: 'ignore' },
  );
  return { key: readFileSync(files.key, 'utf8'), cert: readFileSync(files.cert, 'utf8') };
}

type Init = HostArgs<'http.fetch'>['init'];

type OpenedAnswer = HostResult<'http.fetch'> & { readonly isOpen: boolean };

export interface Plugin {
  readonly dns: DnsServer;
  readonly installation: LiveInstallation;
  /** Ends with the child. */
  readonly child: AbortController;
  fetch(url: string, init?: Init): Promise<HostResult<'http.fetch'>>;
  /** Like `fetch` of a plugin: answers with the headers. */
  open(id: string, url: string, init?: Init): Promise<OpenedAnswer>;
  read(id: string): Promise<BodyPart>;
  /** Reads to the end. */
  readAll(id: string): Promise<string>;
  closeBody(id: string): void;
  handleOf(secret: string): string;
  /** Lets the operator name a private target. */
  allow(target: string): void;
}

/** Secrets of the plugin, and how the host uses those of which it has handles. */
interface GivenSecrets {
  readonly secrets?: Readonly<Record<string, string>>;
  readonly uses?: Readonly<Record<string, readonly string[]>>;
}

interface Bounds {
  readonly bounds?: StreamBounds;
  readonly memory?: BodyMemory;
  readonly rates?: RequestRates;
  readonly resultTurns?: ResultTurns;
  readonly isFromProvider?: boolean;
}

/** A plugin that was granted these hosts. */
export async function pluginWith(
  test: Teardown,
  hosts: readonly string[],
  {
    secrets = {},
    uses = {},
    bounds,
    memory,
    rates,
    resultTurns = new ResultTurns(),
    isFromProvider = false,
    ...options
  }: Partial<Exchange> & GivenSecrets & Bounds = {},
): Promise<Plugin> {
  const dns = await startDns(test);
  const allowPrivate = new Set<string>();
  const handles = new SecretHandles();
  const mask = new SecretMask();
  for (const name of Object.keys(uses)) mask.add(name, secrets[name] ?? '');
  const source: MaskedSource = {
    installationId: 'one',
    openMask: (hostname) => mask.select(Object.keys(uses).filter((name) => uses[name]?.includes(`http:${hostname}`))),
    names: Object.keys(uses),
    read: async (name) => {
      const value = secrets[name];
      return value === undefined ? null : { value, uses: uses[name] ?? null };
    },
  };
  const exchange = { allowPrivate, dnsServers: [dns.address], ...options };
  const { calls, bodies } = openHttp(exchange, { handles, sourceOf: () => source }, bounds, memory, rates);
  const granted = hosts.map((host) => `host.http:${host}`);
  const installation = new LiveInstallation({
    installationId: 'one',
    accountId: 'ann',
    granted,
  } as unknown as InstalledPlugin);
  const child = new AbortController();
  const ask = (bodyId: string | null, url: string, init: Init) => {
    const grant = holdGrant(hostCalls['http.fetch'], installation);
    const caller = { session: null, invocationId: null, isFromProvider };
    const { plugin } = installation;
    const base = { plugin, loaded: plugin, installation, bodyId, ...caller };
    const signal = AbortSignal.any([child.signal, grant.gone]);
    const resultTurn = resultTurns.open(installation.plugin, signal);
    const scope = { ...base, ...grant, child: child.signal, signal, writes: null as never, resultTurn };
    return calls['http.fetch'](scope, { url, init }).finally(grant.release);
  };
  const read = (id: string) => bodies.read(child.signal, id);
  return {
    dns,
    installation,
    child,
    handleOf: (name) => handles.make('one', name),
    allow: (target) => void allowPrivate.add(target),
    fetch: (url, init) => ask(null, url, init),
    open: async (id, url, init) => {
      const answer = await ask(id, url, init);
      return { ...answer, isOpen: bodies.has(child.signal, id) };
    },
    read,
    readAll: async (id) => {
      let text = '';
      for (let part = await read(id); ; part = await read(id)) {
        text += Buffer.from(part.bytes).toString();
        if (part.isEnd) return text;
      }
    },
    closeBody: (id) => bodies.close(child.signal, id),
  };
}
