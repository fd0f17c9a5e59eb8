/** The example packages as an installation has them: read from their folders and bundled as publishing does it. */
import { readdirSync, readFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import { stop } from 'esbuild';
import { BUILD_TIME_MS, ENTRY } from '../../api/package/bundle.ts';
import { buildInTime } from '../../api/package/bundler-worker.ts';
import { readFrontmatter } from '../../api/package/frontmatter.ts';
import { listSecretUses, manifest, resolveSettings } from '../../sdk/contract/manifest.ts';
import type { SupervisorOptions } from '../../supervisor/supervisor.ts';
import { serve } from '../fixtures/listening-server.ts';
import { root } from '../house/source-files.ts';
import type { Teardown } from '../runner/harness.ts';
import { startDns } from '../supervisor/host/dns-server.ts';
import type { PluginSource } from '../supervisor/supervisor-fixture.ts';

export interface Configuration {
  readonly settings?: Readonly<Record<string, string>>;
  readonly secrets?: Readonly<Record<string, string>>;
  /** Where the vendor's addresses are in the test, by how the package writes them. */
  readonly addresses?: Readonly<Record<string, string>>;
}

/** An example, ready for `fixture.install`. Only the vendor's addresses differ from what lies in the folder. */
export async function readExample(slug: string, given: Configuration = {}): Promise<PluginSource> {
  const folder = join(root, 'examples', slug);
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const files = Object.fromEntries(paths.map((path) => [path, join(folder, path)]));
  const readme = { path: 'readme.md', text: readFileSync(join(folder, 'readme.md'), 'utf8') };
  const { data } = readFrontmatter(readme, manifest);
  const hasFetch = data.capabilities.some((capability) => capability.startsWith('host.http:'));
  const built = await buildInTime({ entry: ENTRY, files, hasFetch, timeMs: BUILD_TIME_MS });
  // Its service process would outlive the test.
  await stop();
  if (built.outcome !== 'built') throw new Error(JSON.stringify(built));
  return {
    slug,
    code: moved(built.bundle, given.addresses ?? {}),
    capabilities: data.capabilities,
    settings: resolveSettings(data, given.settings ?? {}),
    secrets: given.secrets ?? {},
    secretUses: listSecretUses(data),
  };
}

function moved(code: string, addresses: Readonly<Record<string, string>>): string {
  let text = code;
  for (const [from, to] of Object.entries(addresses)) {
    if (!text.includes(from)) throw new Error(`the package never names ${from}`);
    text = text.replaceAll(from, to);
  }
  return text;
}

export interface Vendor {
  /** The `http` option of a supervisor that finds the vendor here and may go there. */
  readonly http: NonNullable<SupervisorOptions['http']>;
  /** `https://<host>` as packages write it, and where it is served. */
  readonly addresses: Readonly<Record<string, string>>;
}

/** A vendor's servers on this machine, by their real names, which only the test's own DNS server resolves. */
export async function startVendor(test: Teardown, hosts: readonly string[], answer: RequestListener): Promise<Vendor> {
  const { port } = await serve(test, answer);
  const dns = await startDns(test);
  for (const host of hosts) dns.set(host, ['127.0.0.1']);
  const allowPrivate = new Set(hosts.map((host) => `${host}:${port}`));
  return {
    http: { allowPrivate, dnsServers: [dns.address] },
    addresses: Object.fromEntries(hosts.map((host) => [`https://${host}`, `http://${host}:${port}`])),
  };
}
