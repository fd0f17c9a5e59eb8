/** The data directory of the embedded PostgreSQL: made once, whole or not at all. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chown, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { replaceFile } from '../files/data-dir.ts';
import type { PostgresBinaries } from './binaries.ts';
import type { Launcher } from './launcher.ts';
import { stopOrphans } from './orphaned-servers.ts';
import { serverEnvironment } from './server.ts';

const run = promisify(execFile);
const passwords = z.object({ superuser: z.string(), application: z.string() });
/** 192 random bits: beyond guessing, and no character that an address would have to escape. */
const PASSWORD_BYTES = 24;

/** `superuser` sets the database up; `application` is the role Bulkhead works as, which may read no server file. */
export type Passwords = z.infer<typeof passwords>;

/**
 * Makes the cluster in `<dataDir>/postgres` if there is none. A crash half-way leaves nothing that looks finished.
 *
 * @throws with one sentence when it belongs to another major version of PostgreSQL
 */
export async function createCluster(dataDir: string, binaries: PostgresBinaries, launcher: Launcher): Promise<string> {
  const cluster = join(dataDir, 'postgres');
  if (!existsSync(cluster)) {
    const unfinished = join(dataDir, 'postgres.new');
    await stopOrphans(unfinished);
    await rm(unfinished, { recursive: true, force: true });
    await mkdir(unfinished, { mode: 0o700 });
    await give(unfinished, launcher.owner);
    await initialize(dataDir, unfinished, binaries, launcher);
    await rename(unfinished, cluster);
  }
  const major = (await readFile(join(cluster, 'PG_VERSION'), 'utf8')).trim();
  if (major !== binaries.major) {
    throw new Error(
      `${cluster} was made by PostgreSQL ${major} and this is ${binaries.major}: dump it with the old release first.`,
    );
  }
  await give(cluster, launcher.owner);
  return cluster;
}

/** Reads the passwords, made at the first call and kept readable by the owner only. */
export async function readPasswords(dataDir: string): Promise<Passwords> {
  const file = join(dataDir, 'postgres.secret.json');
  const make = () => randomBytes(PASSWORD_BYTES).toString('base64url');
  if (!existsSync(file)) await replaceFile(file, JSON.stringify({ superuser: make(), application: make() }));
  return passwords.parse(JSON.parse(await readFile(file, 'utf8')));
}

async function initialize(dataDir: string, target: string, { initdb }: PostgresBinaries, launcher: Launcher) {
  const passwordFile = join(dataDir, 'postgres.initial-password');
  await writeFile(passwordFile, (await readPasswords(dataDir)).superuser, { mode: 0o600 });
  const [program = initdb, ...words] = [
    ...[...launcher.prefix, initdb, '-D', target, '--username', 'postgres', '--pwfile', passwordFile],
    ...['--auth', 'scram-sha-256', '--encoding', 'UTF8'],
    // PostgreSQL's own collation: the operating system's may change with an upgrade and silently break indexes.
    ...['--locale', 'C', '--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8'],
  ];
  try {
    await run(program, words, { env: serverEnvironment() });
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim().split('\n').at(-1) : error;
    throw new Error(`PostgreSQL could not make its data directory in ${dataDir}: ${said}`);
  } finally {
    await rm(passwordFile, { force: true });
  }
}

/** Only root can, and has to when the last start went another way (see the launcher). */
async function give(path: string, owner: number | null): Promise<void> {
  if (owner === null || (await stat(path)).uid === owner) return;
  for (const entry of await readdir(path, { recursive: true })) await chown(join(path, entry), owner, owner);
  // The top comes last: an interrupted walk is begun again.
  await chown(path, owner, owner);
}
