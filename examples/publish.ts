/**
 * Publishes and installs an example: `npm run example -- <name>`. Run it again after a change to publish the next
 * version.
 */
import { parseArgs } from 'node:util';
import {
  ensureInstalled,
  ensurePlugin,
  listExamples,
  nextSemVer,
  publishZip,
  readPackage,
  registered,
} from './demo-packages.ts';
import { answering, findToken, NotRunning, readAddresses, Service } from './demo-service.ts';

const HELP = `Usage: npm run example -- <name>...

Publishes examples to a running Bulkhead and installs them.

Environment
  PORT       the service's port, also from .env   (4000)
  BASE_URL   the REST interface                   (http://localhost:PORT/api)
  TOKEN      a bearer token                       (else that of a user named demo)`;

const { values: flags, positionals: names } = parseArgs({
  allowPositionals: true,
  options: { help: { type: 'boolean', short: 'h' } },
});
const known = listExamples();
const unknown = names.filter((name) => !known.includes(name));
if (flags.help || names.length === 0) console.log(`${HELP}\n\nExamples\n  ${known.join('\n  ')}`);
else if (unknown.length > 0) fail(`There is no example ${unknown.join(', ')}. There are ${known.join(', ')}.`);
else
  await publishAll().catch((error: Error) =>
    fail(error instanceof NotRunning ? `${error.message}: start it with npm start` : error.message),
  );

async function publishAll(): Promise<void> {
  const { base } = readAddresses();
  await answering(base);
  const api = new Service(base, await findToken());
  for (const name of names) {
    const plugin = await ensurePlugin(api, name);
    const semVer = await nextSemVer(api, plugin);
    const version = await publishZip(api, plugin, semVer, await readPackage(name));
    const { id, status } = await ensureInstalled(api, plugin.slug);
    console.log(`${plugin.slug} ${semVer}: ${registered(version)}`);
    console.log(`  installed as ${id}, ${status.replaceAll('_', ' ')}`);
  }
}

function fail(why: string): void {
  console.error(why);
  process.exitCode = 1;
}
