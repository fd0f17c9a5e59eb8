/**
 * Shows Bulkhead end to end with a running service: publishes the example packages, installs and configures them, runs
 * their hooks and tools in a session, reads their log and uninstalls them. Exits with 0 only if every step succeeded.
 */
import { parseArgs } from 'node:util';
import type { Installation, Version } from '../sdk/cli/rest-types.ts';
import { connect, type SessionClient } from '../sdk/session/client.ts';
import { eventually, expect, oneLine } from './demo-checks.ts';
import {
  ensurePlugin,
  install,
  nextSemVer,
  publishFiles,
  publishZip,
  readPackage,
  registered,
  reinstall,
  requireNotInstalled,
  uninstall,
} from './demo-packages.ts';
import { Printer } from './demo-printer.ts';
import { answering, findToken, NotRunning, readAddresses, Service } from './demo-service.ts';
import { DemoSession } from './demo-session.ts';

const HELP = `Usage: npm run demo [-- --keep] [--replace]

Publishes, installs and runs the example plugins against a running Bulkhead.

  --keep      leave the plugins installed
  --replace   first uninstall those that are installed, with their settings
  --help      show this

Environment
  PORT, SUPERVISOR_PORT   the service's ports, also from .env   (4000, 4010)
  BASE_URL                the REST interface                    (http://localhost:PORT/api)
  SESSION_URL             the session interface                 (http://localhost:SUPERVISOR_PORT)
  TOKEN                   a bearer token                        (else that of a user named demo)`;
const DEFAULT_STYLE = 'Prefer everyday words';
const OWN_STYLE = 'Answer as a pirate.';
const CARD = '4111 1111 1111 1111';

const { values: flags } = parseArgs({
  options: { keep: { type: 'boolean' }, replace: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
});
const fancy = process.stdout.isTTY === true && !process.env.NO_COLOR;
const printer = new Printer(fancy, (text) => process.stdout.write(text));
/** The current step, for the error message. */
let running = 'connect';

async function step(what: string, run: () => Promise<string>): Promise<void> {
  running = what;
  printer.done({ what, found: await run() });
}

if (flags.help) console.log(HELP);
else await show();

async function show(): Promise<void> {
  const { base, sessionBase } = readAddresses();
  printer.title('Bulkhead demo', base);
  const installed: Installation[] = [];
  let api: Service | undefined;
  try {
    await step('service', () => answering(base));
    const token = await findToken();
    api = new Service(base, token);
    await tour(api, connect({ url: sessionBase, token }), installed);
  } catch (error) {
    failed(error);
  }
  // Also after a failure, so that the next run starts with the same account.
  if (api && !flags.keep) await uninstallAll(api, installed).catch(failed);
  if (process.exitCode) return;
  printer.section('Everything held.');
  printer.note('The published versions stay, because they are immutable; the next run publishes the next ones.');
}

function failed(error: unknown): void {
  process.exitCode = 1;
  const why = error instanceof Error ? error.message : String(error);
  printer.failed(running, error instanceof NotRunning ? `${why}: start it with npm start` : why);
}

async function tour(api: Service, sessions: SessionClient, installed: Installation[]): Promise<void> {
  await step('signed in', async () => `as ${(await api.get<{ name: string }>('/me')).name}`);
  await installAll(api, await publishAll(api), installed);
  const [house, guard, dice, todos, skills] = installed;
  expect(house && guard && dice && todos && skills, 'five installations', installed);
  await converse(api, sessions, { house, guard, dice, todos, skills });
  await readLog(api, guard);
}

async function publishAll(api: Service): Promise<string[]> {
  printer.section('Publish');
  const slugs: string[] = [];
  for (const name of ['house-style', 'message-guard', 'dice', 'todo-policy', 'skill-pack']) {
    // A skill contains a picture, so it needs a zip.
    const zipped = name === 'dice' || name === 'skill-pack';
    await step(`${name} as ${zipped ? 'a zip' : 'a file list'}`, async () => {
      const source = await readPackage(name);
      const plugin = await ensurePlugin(api, name);
      if (!flags.replace) await requireNotInstalled(api, plugin.slug);
      const semVer = await nextSemVer(api, plugin);
      const publish = zipped ? publishZip : publishFiles;
      const version: Version = await publish(api, plugin, semVer, source);
      expect(version.semVer === semVer, `version ${semVer}`, version);
      slugs.push(plugin.slug);
      return `${semVer}, registers ${registered(version)}`;
    });
  }
  return slugs;
}

type CatalogEntry = { readonly reach: readonly { sentence: string }[]; readonly capabilities: readonly string[] };

async function installAll(api: Service, slugs: readonly string[], installed: Installation[]): Promise<void> {
  printer.section('Install');
  for (const slug of slugs) {
    await step(slug, async () => {
      const { reach, capabilities } = await api.get<CatalogEntry>(`/marketplace/${slug}`);
      expect(capabilities.length === 0 || reach.length > 0, 'sentences on what it can reach', reach);
      installed.push(await (flags.replace ? reinstall : install)(api, slug));
      return reach.map(({ sentence }) => sentence).join(' ') || 'Text and files only.';
    });
  }
}

type Installed = Readonly<Record<'house' | 'guard' | 'dice' | 'todos' | 'skills', Installation>>;

async function converse(api: Service, sessions: SessionClient, installed: Installed): Promise<void> {
  printer.section('Run in a session');
  const { house, guard, dice, todos, skills } = installed;
  running = 'open a session';
  const session = await DemoSession.open(sessions);
  const set = (installation: Installation, settings: object) =>
    api.post(`/installations/${installation.id}/configure`, { settings });
  await step('system prompt, by default', () => session.prompt(DEFAULT_STYLE));
  await set(todos, { dueInDays: '2' });
  await set(house, { style: OWN_STYLE });
  await step('system prompt, configured', () => session.prompt(OWN_STYLE));
  await step('message that passes', () => session.passes('Two rye loaves, please'));
  await step('message that is redacted', () => session.redacts(`Charge ${CARD}`, 'Charge [card number]'));
  await set(guard, { forbidden: 'sourdough secret' });
  await step('message that is stopped', () => session.vetoes('Tell me the sourdough secret'));

  const tool = `${dice.slug}__roll`;
  await step('tool in the list', () => session.finds(tool));
  await step('tool that is called', () => session.rolls(tool, 3, 6));
  await step('wrong argument', () => session.refuses(tool, { sides: 'six' }));
  await step('to-do gets a due date', () => session.dates('Order flour', 2));
  await step('skill that is read', () => session.reads(`${skills.slug}__logo`));
  running = 'close the session';
  await session.close();
}

async function readLog(api: Service, guard: Installation): Promise<void> {
  printer.section('Read the log');
  await step('message-guard, warnings', async () => {
    const path = `/plugin-logs?installationId=${guard.id}&levels=warn&limit=1`;
    const ask = () => api.get<{ items: readonly { message: string; source: string; data: unknown }[] }>(path);
    const { items } = await eventually(ask, ({ items }) => items.length > 0, 'a log line');
    const [line] = items;
    expect(line?.message === 'Stopped a message', 'the line of the veto', items);
    return oneLine(`${line.source}: ${line.message} ${JSON.stringify(line.data)}`);
  });
}

async function uninstallAll(api: Service, installed: readonly Installation[]): Promise<void> {
  if (installed.length === 0) return;
  printer.section('Uninstall');
  for (const installation of installed) {
    await step(installation.slug, async () => {
      await uninstall(api, installation);
      return 'gone';
    });
  }
}
