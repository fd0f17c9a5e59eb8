/** Creates the data directory (the "cluster") of the embedded PostgreSQL. A crash leaves it complete or absent. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chown, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { PRIVATE_FILE, replaceFile } from '../../sdk/files/replace-file.ts';
import type { PostgresBinaries } from './binaries.ts';
import type { Launcher } from './launcher.ts';
import { stopOrphans } from './orphaned-servers.ts';
import { serverEnvironment } from './server.ts';

const run = promisify(execFile);
const passwords = z.object({ superuser: z.string(), application: z.string() });
const PASSWORD_BYTES = 24;

/** `superuser` creates the database; `application` is Bulkhead's role, which cannot read files of the server. */
export type Passwords = z.infer<typeof passwords>;

/**
 * Creates the cluster in `<dataDir>/postgres` unless it exists. After a crash, the next call starts from the beginning.
 *
 * @returns the path of the cluster
 * @throws Error when the cluster belongs to another major version of PostgreSQL
 */
export async function createCluster(dataDir: string, binaries: PostgresBinaries, launcher: Launcher): Promise<string> {
  const cluster = join(dataDir, 'postgres');
  if (!existsSync(cluster)) {
    const unfinished = join(dataDir, 'postgres.new');
    await stopOrphans(unfinished);
    await rm(unfinished, { recursive: true, force: true });
    await mkdir(unfinished, { mode: 0o700 });
    await changeOwner(unfinished, launcher.owner);
    await initialize(dataDir, unfinished, binaries, launcher);
    await rename(unfinished, cluster);
  }
  const major = (await readFile(join(cluster, 'PG_VERSION'), 'utf8')).trim();
  if (major !== binaries.major) {
    throw new Error(
      `${cluster} was created by PostgreSQL ${major} and this release runs PostgreSQL ${binaries.major}. Write a backup with the old release and restore it with this one.`,
    );
  }
  await changeOwner(cluster, launcher.owner);
  return cluster;
}

/** Reads the passwords. The first call creates them in a file that only the owner can read. */
export async function readPasswords(dataDir: string): Promise<Passwords> {
  const file = join(dataDir, 'postgres.secret.json');
  const createPassword = () => randomBytes(PASSWORD_BYTES).toString('base64url');
  if (!existsSync(file)) {
    await replaceFile(
      file,
      JSON.stringify({ superuser: createPassword(), application: createPassword() }),
      PRIVATE_FILE,
    );
  }
  return passwords.parse(JSON.parse(await readFile(file, 'utf8')));
}

async function initialize(dataDir: string, target: string, { initdb }: PostgresBinaries, launcher: Launcher) {
  const passwordFile = join(dataDir, 'postgres.initial-password');
  await writeFile(passwordFile, (await readPasswords(dataDir)).superuser, { mode: 0o600 });
  const [program = initdb, ...args] = [
    ...launcher.prefix,
    initdb,
    `--pgdata=${target}`,
    '--username=postgres',
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    // PostgreSQL's own collation, because an upgrade of the operating system may change the system's collation and break indexes.
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
  ];
  try {
    await run(program, args, { env: serverEnvironment() });
  } catch (error) {
    const reason = error instanceof Error && 'stderr' in error ? findReason(String(error.stderr)) : error;
    throw new Error(`PostgreSQL could not create its data directory in ${dataDir}: ${reason}`);
  } finally {
    await rm(passwordFile, { force: true });
  }
}

/** Why initdb failed. The last line of its output says only that it removes its files. */
function findReason(output: string): string | undefined {
  const lines = output.trim().split('\n');
  const found = [/\b(error|FATAL|PANIC): */, /\b(HINT): */].flatMap((start) => {
    const line = lines.find((line) => start.test(line));
    // Without the time and process id of a line of the server.
    return line === undefined ? [] : [line.slice(line.search(start)).replace(start, '$1: ')];
  });
  return found.length === 0 ? lines.at(-1) : found.join(' ');
}

/** Gives the files to the launcher's user. They have another owner if the last start, as root, used another launcher. */
async function changeOwner(path: string, owner: number | null): Promise<void> {
  if (owner === null || (await stat(path)).uid === owner) return;
  for (const entry of await readdir(path, { recursive: true })) await chown(join(path, entry), owner, owner);
  // Last, so that an interrupted run is repeated.
  await chown(path, owner, owner);
}
