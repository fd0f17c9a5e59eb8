/** `npm run -s operator -- verify|unverify <user>`, `block <slug> --reason …`, `unblock <slug>`, `actions`: an operator's word. */
import { parseArgs } from 'node:util';
import type { Pool } from 'pg';
import { locateDatabase } from './command-database.ts';
import { migrate } from './migrate.ts';
import { blockPlugin, unblockPlugin, verifyAuthor } from './moderation.ts';
import { listActions } from './operator-actions.ts';
import { openPool } from './pool.ts';
import { parseSettings, readEnvironment, sharedSettings } from './settings.ts';
import { isStorable } from './storable.ts';

/** Actions shown at once. */
const ACTIONS_MAX = 1_000;
const USAGE = `Usage: npm run -s operator -- <command>

  verify <user>                    show the user's identity on everything they publish (tier "verified")
  unverify <user>                  no longer do so
  block <slug> --reason <reason>   take a plugin out of the catalog and stop it in every account; users read the reason
  unblock <slug>                   let it run again
  actions                          what operators did: when, who, what and why; the newest ${ACTIONS_MAX}, newest first

  --json    print the outcome, or what went wrong, as one line of JSON
  --help    this text

Works while the service runs and while it does not. Running children of a blocked plugin are ended at once.`;
/** Users read the reason in one line. Characters. */
const REASON_MAX_CHARS = 500;

/** What a command did: a sentence for people, fields for programs. */
interface Outcome {
  readonly sentence: string;
  readonly fields: Readonly<Record<string, unknown>>;
}
type Command = (pool: Pool, subject: string, reason: string) => Promise<Outcome>;

const asJson = process.argv.includes('--json');
async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      reason: { type: 'string' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const [name = '', subject = ''] = positionals;
  const command = commands.get(name);
  const isAboutSomething = name !== 'actions';
  if (!command || (subject !== '') !== isAboutSomething || positionals.length > 2) {
    throw new Error(`Give a command and whom or what it is about.\n\n${USAGE}`);
  }
  const reason = readReason(name, values.reason);
  if (!isStorable(subject)) throw new Error('That name holds characters that no name has.');
  const { sentence, fields } = await withDatabase((pool) => command(pool, subject, reason));
  console.log(values.json ? JSON.stringify({ command: name, ...fields }) : sentence);
}

/** Only a block has a reason, and it needs one. */
function readReason(name: string, given: string | undefined): string {
  const reason = given?.trim() ?? '';
  if (name !== 'block' && given !== undefined) throw new Error('--reason goes with block only.');
  if (name !== 'block') return '';
  if (reason === '') throw new Error('A block needs --reason "…": its users are told.');
  if (reason.length > REASON_MAX_CHARS || !isStorable(reason)) {
    throw new Error(`The reason must be one text of at most ${REASON_MAX_CHARS} characters.`);
  }
  return reason;
}

async function withDatabase<T>(work: (pool: Pool) => Promise<T>): Promise<T> {
  const located = await locateDatabase(parseSettings(sharedSettings, readEnvironment()));
  try {
    await migrate(located.url);
    const database = openPool(located.url, { name: 'bulkhead-operator', connections: 1, onError: () => undefined });
    try {
      return await work(database.pool);
    } finally {
      await database.close();
    }
  } finally {
    await located.release();
  }
}

const verification =
  (verified: boolean): Command =>
  async (pool, user) => {
    if (!(await verifyAuthor(pool, user, verified))) {
      throw new Error(`There is no account “${user}”: one is made by its first sign-in.`);
    }
    const sentence = verified
      ? `“${user}” is verified: everything they publish shows their identity.`
      : `“${user}” is no longer verified.`;
    return { sentence, fields: { user, verified } };
  };

const block: Command = async (pool, slug, reason) => {
  const done = await blockPlugin(pool, slug, reason);
  if (!done) throw unknownPlugin(slug);
  return { sentence: `“${slug}” is blocked; ${told(done.installations)}: ${reason}`, fields: { ...done } };
};

const unblock: Command = async (pool, slug) => {
  const done = await unblockPlugin(pool, slug);
  if (!done) throw unknownPlugin(slug);
  return { sentence: `“${slug}” is not blocked; ${told(done.installations)}.`, fields: { ...done } };
};

const showActions: Command = async (pool) => {
  const actions = await listActions(pool, ACTIONS_MAX);
  const lines = actions.map(({ at, by, action, subject, reason }) =>
    printable(`${at}  ${by}  ${action} ${subject}${reason === null ? '' : `: ${reason}`}`),
  );
  return { sentence: lines.length === 0 ? 'No operator did anything yet.' : lines.join('\n'), fields: { actions } };
};

/** Names come from elsewhere: none may steer the terminal or break its line. */
const printable = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd');

const commands: ReadonlyMap<string, Command> = new Map([
  ['verify', verification(true)],
  ['unverify', verification(false)],
  ['block', block],
  ['unblock', unblock],
  ['actions', showActions],
]);

const unknownPlugin = (slug: string): Error => new Error(`There is no plugin “${slug}”.`);
const told = (count: number): string => `${count} installation${count === 1 ? '' : 's'} told`;

// Last: what is above must be there.
try {
  await main();
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  console.error(asJson ? JSON.stringify({ error: message }) : message);
  process.exitCode = 1;
}
