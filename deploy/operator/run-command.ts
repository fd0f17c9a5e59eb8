/** Parses an operator's command line, runs the command and prints its result. */
import { parseArgs } from 'node:util';
import type { Pool } from 'pg';
import { explainDenied } from '../../db/files/data-dir.ts';
import { isMissingObject } from '../../db/postgres/database-errors.ts';
import { listMissingMigrations, listUnknownMigrations } from '../../db/postgres/migrate.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { isStorable } from '../../db/postgres/storable-json.ts';
import { requireDatabase, requireWholeRestore } from '../../service/lifecycle/start-faults.ts';
import {
  parseSettings,
  type readEnvironment,
  type SharedSettings,
  sharedSettings,
} from '../../service/settings/settings.ts';
import { locateDatabase } from '../command-database.ts';
import { actAsOwner } from '../data-dir-owner.ts';
import {
  accounts,
  appoint,
  demote,
  moveAccount,
  resume,
  revokeAll,
  revokeOne,
  suspend,
  tokens,
} from './account-commands.ts';
import { backup, checkBackupFile, restore } from './backups.ts';
import {
  type CommandContext,
  type CommandDatabase,
  type OperatorCommand,
  type Outcome,
  type ParsedArgs,
  UsageError,
} from './command.ts';
import { deadLetters, replay } from './dead-letters.ts';
import { fleet, installations, restart, waiting } from './fleet.ts';
import { acceptDataDir, changeClusterKey, rotateIdentityKey, rotateKey } from './keys.ts';
import { actions, block, unblock, unverify, verify } from './moderation.ts';
import { moveBlobs } from './move-blobs.ts';
import { prune } from './prune.ts';

const commands: ReadonlyMap<string, OperatorCommand> = new Map([
  ['fleet', fleet],
  ['installations', installations],
  ['waiting', waiting],
  ['restart', restart],
  ['verify', verify],
  ['unverify', unverify],
  ['block', block],
  ['unblock', unblock],
  ['accounts', accounts],
  ['suspend', suspend],
  ['resume', resume],
  ['appoint', appoint],
  ['demote', demote],
  ['tokens', tokens],
  ['revoke-token', revokeOne],
  ['revoke-tokens', revokeAll],
  ['move-account', moveAccount],
  ['dead-letters', deadLetters],
  ['replay', replay],
  ['rotate-key', rotateKey],
  ['rotate-identity-key', rotateIdentityKey],
  ['change-cluster-key', changeClusterKey],
  ['accept-data-dir', acceptDataDir],
  ['move-blobs', moveBlobs],
  ['backup', backup],
  ['check-backup', checkBackupFile],
  ['restore', restore],
  ['prune', prune],
  ['actions', actions],
]);
const COMMON = { json: { type: 'boolean', default: false } } as const;
const HELP: readonly string[] = ['--help', '-h'];
/** Column in which descriptions start. */
const INDENT = 35;

/** Where a command line comes from and where its output goes. */
interface Terminal {
  /** The settings of the service. */
  readonly readEnvironment: typeof readEnvironment;
  /** Prints a line to standard output. */
  print(line: string): void;
  /** Prints a line to standard error. */
  printError(line: string): void;
}

/**
 * @param args the command and its arguments
 * @returns the exit code
 */
export async function runCommandLine(args: readonly string[], terminal: Terminal): Promise<number> {
  const asJson = args.includes('--json');
  try {
    terminal.print(await run(args, asJson, terminal));
    return 0;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const isUsage = error instanceof UsageError;
    const [name = ''] = args.filter((word) => !word.startsWith('-'));
    const help = commands.has(name) ? `${name} --help` : '--help';
    const hint = isUsage && !asJson ? `\n\nSee npm run -s operator -- ${help}` : '';
    terminal.printError(asJson ? JSON.stringify({ error: message }) : `${message}${hint}`);
    return isUsage ? 2 : 1;
  }
}

/** @returns what to print */
async function run(args: readonly string[], asJson: boolean, terminal: Terminal): Promise<string> {
  const given = args.filter((word) => word !== '--json' && !HELP.includes(word));
  const isHelp = given[0] === 'help' || args.some((word) => HELP.includes(word));
  const [name = '', ...words] = given[0] === 'help' ? given.slice(1) : given;
  const command = commands.get(name);
  if (!command) {
    if (isHelp && name === '') return formatOverview();
    throw new UsageError(name === '' ? 'Give a command.' : `Unknown command “${name}”.`);
  }
  if (isHelp) return formatUsage(name, command);
  const parsedArgs = readArgs(name, command, words);
  const { sentence, fields } = await withContext(terminal, asJson, (context) => command.run(parsedArgs, context));
  return asJson ? JSON.stringify({ command: name, ...fields }) : sentence;
}

/** @throws UsageError */
function readArgs(name: string, command: OperatorCommand, words: string[]): ParsedArgs {
  const { subjects, options = {} } = command;
  const oneDash = words.find((word) => Object.hasOwn(options, word.slice(1)) && word.startsWith('-'));
  if (oneDash !== undefined) throw new UsageError(`Options begin with two dashes: -${oneDash}.`);
  const known = Object.entries(options).map(([option, { type }]) => [option, { type }] as const);
  const parsed = parse(words, Object.fromEntries(known));
  const isMany = subjects.at(-1)?.endsWith('…') === true;
  const count = parsed.positionals.length;
  if (!isMany && count !== subjects.length) throw new UsageError(`Usage: ${formatSynopsis(name, command)}`);
  if (parsed.positionals.some((subject) => !isStorable(subject) || subject === '')) {
    throw new Error('The name contains characters that are not allowed.');
  }
  for (const [option, { choices }] of Object.entries(options)) {
    const value = parsed.values[option];
    if (choices !== undefined && typeof value === 'string' && !choices.includes(value))
      throw new UsageError(`--${option} must be one of ${choices.join(', ')}.`);
  }
  return { subjects: parsed.positionals, options: parsed.values };
}

function parse(args: string[], options: Record<string, { type: 'string' | 'boolean' }>) {
  try {
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { ...options, ...COMMON } });
    return { values: values as ParsedArgs['options'], positionals };
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

/** Opens the resources of the command, and closes them afterwards. */
async function withContext(
  { readEnvironment, printError }: Terminal,
  asJson: boolean,
  work: (context: CommandContext) => Promise<Outcome>,
): Promise<Outcome> {
  const settings = parseSettings(sharedSettings, readEnvironment());
  actAsOwner(settings.DATA_DIR);
  const closers: (() => Promise<void>)[] = [];
  let opened: Promise<CommandDatabase> | undefined;
  const database = () => {
    opened ??= openDatabase(settings, closers);
    return opened;
  };
  const currentDatabase = async () => {
    // The repeated restore of an older release's backup needs a database without tables.
    await requireWholeRestore(settings.DATA_DIR);
    const found = await database();
    if ((await listMissingMigrations(found.pool)).length > 0)
      throw await explainOldTables(found.pool, settings.DATA_DIR);
    return found;
  };
  const printProgress = (line: string) => {
    if (!asJson) printError(line);
  };
  try {
    return await work({ settings, database, currentDatabase, printProgress });
  } catch (error) {
    throw isMissingObject(error) && opened !== undefined
      ? await explainOtherTables((await opened).pool, settings.DATA_DIR, error)
      : await explainDenied(error, settings.DATA_DIR);
  } finally {
    for (const close of closers.reverse()) await close();
  }
}

async function openDatabase(settings: SharedSettings, closers: (() => Promise<void>)[]) {
  const located = await locateDatabase(settings);
  closers.push(located.release);
  const database = openPool(located.url, { name: 'bulkhead-operator', connections: 2, onError: () => undefined });
  closers.push(database.close);
  await requireDatabase(database.pool, located.setting);
  return { pool: database.pool, url: located.url };
}

/** Explains why a table or column is missing: the tables may be those of another release. */
async function explainOtherTables(pool: Pool, dataDir: string, error: unknown): Promise<unknown> {
  const missing = await listMissingMigrations(pool).catch(() => null);
  if (missing === null || missing.length > 0) return explainOldTables(pool, dataDir);
  const [newer] = await listUnknownMigrations(pool);
  if (newer === undefined) return error;
  return new Error(
    `The tables are those of a newer release, which has the migration ${newer.name}. Run the command of the release that runs.`,
  );
}

/** Explains why a command cannot run: the tables are older than the program. */
async function explainOldTables(pool: Pool, dataDir: string): Promise<Error> {
  const missing = await listMissingMigrations(pool).catch(() => null);
  if (missing === null) await requireWholeRestore(dataDir);
  return new Error(
    missing === null
      ? 'The database has no tables of Bulkhead yet. npm start creates them.'
      : `The tables are those of an older release: migrations are missing (${missing.join(', ')}). Run the command of the release that runs, or upgrade: npm start applies the migrations.`,
  );
}

function formatSynopsis(name: string, { subjects, options = {} }: OperatorCommand): string {
  const places = subjects.map((subject) => (subject.endsWith('…') ? `[${subject}]` : `<${subject}>`));
  const required = Object.entries(options).filter(([, { isRequired }]) => isRequired);
  return [name, ...places, ...required.map(([option, { value }]) => formatOption(option, value))].join(' ');
}

const formatOption = (name: string, value: string | undefined): string =>
  `--${name}${value === undefined ? '' : ` <${value}>`}`;

const explained = (what: string, doc: string): string => `  ${what.padEnd(INDENT - 2)} ${doc}`;

function formatOverview(): string {
  const lines = [...commands].map(([name, command]) => explained(formatSynopsis(name, command), command.doc));
  return `Usage: npm run -s operator -- <command>

${lines.join('\n')}

${explained('--json', 'print the result or error as one line of JSON, without progress')}
${explained('--help', 'print this text, or the options of a command')}

restore, move-blobs and accept-data-dir require a stopped service; all other commands also work while it runs. Exit code 0: done;
1: failed, and standard error has the reason; 2: wrong command line.`;
}

function formatUsage(name: string, command: OperatorCommand): string {
  const lines = Object.entries(command.options ?? {}).map(([option, { value, doc }]) =>
    explained(formatOption(option, value), doc),
  );
  return [`Usage: npm run -s operator -- ${formatSynopsis(name, command)}`, '', `  ${command.doc}`, '', ...lines]
    .join('\n')
    .trimEnd();
}
