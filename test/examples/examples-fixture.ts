/** API and supervisor over one database: examples are published, installed and configured as a user does it. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SupervisorOptions } from '../../supervisor/supervisor.ts';
import { type Client, startApiFixture } from '../api/api-fixture.ts';
import { type Files, upload, zipOf } from '../api/package/packages.ts';
import { root } from '../house/source-files.ts';
import { eventually } from '../runner/eventually.ts';
import type { Teardown } from '../runner/harness.ts';
import { type Reply, type SupervisorFixture, startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';

type Texts = Readonly<Record<string, string>>;
export interface Published {
  readonly installationId: string;
  readonly pluginId: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what was discovered
  readonly discovered: any;
}
export interface ExamplesFixture extends SupervisorFixture {
  readonly ann: Client;
  /** Publishes an example as a zip, without a warning, installs it for ann, and waits until its hooks and tools are hers. */
  publish(slug: string, settings?: Texts, secrets?: Texts): Promise<Published>;
  /** Changes settings, and waits until they hold. */
  configure(installationId: string, settings: Texts): Promise<void>;
  /** Runs a hook of a session. A first start may be late on a busy machine, and a late one is skipped: then once more. */
  hook(session: string, hook: string, context: object): Promise<Reply['body']>;
  /** Calls a tool, in full as `<slug>__<tool>`, and gives its only content: JSON or text. */
  tool(session: string, name: string, args?: object): Promise<Reply['body']>;
  /** Texts of the session's transcript, oldest first. */
  transcript(session: string): Promise<string[]>;
}

export async function startExamplesFixture(
  test: Teardown,
  options: Partial<SupervisorOptions> = {},
): Promise<ExamplesFixture> {
  const fixture = await startSupervisorFixture(test, options);
  const ann = await (await startApiFixture(test, { beside: fixture })).user('ann');
  const configure = async (installationId: string, settings: Texts) => {
    const { status, body } = await ann.post(`/installations/${installationId}/configure`, { settings });
    if (status !== 200) throw new Error(JSON.stringify(body));
    await isHeld(fixture, installationId, settings);
  };
  return {
    ...fixture,
    ann,
    configure,
    publish: (slug, settings = {}, secrets = {}) => publish(fixture, ann, slug, { settings, secrets }),
    hook: (session, hook, context) => runHook(fixture, session, hook, context),
    tool: (session, name, args = {}) => callTool(fixture, session, name, args),
    transcript: async (session) => {
      const { body } = await fixture.call('GET', `/sessions/${session}/messages`);
      return body.items.map(({ text }: { text: string }) => text);
    },
  };
}

/** The files of an example, as they lie in its folder. */
export function filesOf(slug: string): Files {
  const folder = join(root, 'examples', slug);
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = entries.map((entry) => join(entry.parentPath, entry.name));
  return Object.fromEntries(paths.map((path) => [path.slice(folder.length + 1), readFileSync(path)]));
}

type Given = { readonly settings: Texts; readonly secrets: Texts };
async function publish(fixture: SupervisorFixture, ann: Client, slug: string, given: Given) {
  const made = await ann.post('/plugins', { slug, displayName: slug });
  const { id: pluginId } = expected(made, 201);
  const url = `/api/plugins/${pluginId}/versions/zip`;
  const published = await ann.send({ method: 'POST', url, ...upload(await zipOf(filesOf(slug)), '1.0.0') });
  const { discovered, warnings } = expected(published, 201);
  if (warnings.length > 0) throw new Error(`${slug} has warnings: ${JSON.stringify(warnings)}`);
  const installed = await ann.post('/installations', { slug, versionPolicy: 'Latest' });
  const { id: installationId } = expected(installed, 201);
  if (Object.keys({ ...given.settings, ...given.secrets }).length > 0)
    expected(await ann.post(`/installations/${installationId}/configure`, given), 200);
  await isHeld(fixture, installationId, given.settings);
  return { installationId, pluginId, discovered };
}

function expected({ status, body }: { status: number; body: Reply['body'] }, wanted: number): Reply['body'] {
  if (status !== wanted) throw new Error(`answered ${status}: ${JSON.stringify(body)}`);
  return body;
}

/** The supervisor learns of changes through notifications. */
async function isHeld(fixture: SupervisorFixture, installationId: string, settings: Texts): Promise<void> {
  const { rows } = await fixture.pool.query('SELECT account_id FROM installations WHERE id = $1', [installationId]);
  await eventually(async () => {
    const { plugins } = await fixture.supervisor.pluginsCache.get(rows[0].account_id);
    const plugin = plugins.find((candidate) => candidate.installationId === installationId);
    return plugin && Object.entries(settings).every(([name, value]) => plugin.settings[name] === value);
  });
}

async function runHook(
  fixture: SupervisorFixture,
  session: string,
  hook: string,
  context: object,
): Promise<Reply['body']> {
  return eventually(async () => {
    const { status, body } = await fixture.call('POST', `/sessions/${session}/hooks/${hook}`, { context });
    const late = body.trace?.some(({ outcome }: { outcome: string }) => outcome === 'skipped_unavailable');
    if (status !== 200) throw new Error(JSON.stringify(body));
    return late ? null : body;
  });
}

async function callTool(
  fixture: SupervisorFixture,
  session: string,
  name: string,
  args: object,
): Promise<Reply['body']> {
  return eventually(async () => {
    const { status, body } = await fixture.call('POST', `/sessions/${session}/tools/${name}`, { arguments: args });
    if (status === 503) return null;
    const [content] = body.content ?? [];
    return content?.json ?? content?.text ?? content ?? body;
  });
}
