/** A copy of this checkout that a test turns into the next release while the service runs from it. */
import { execFile, execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { chmod, cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { MIGRATIONS } from '../../db/postgres/migrate.ts';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** The files of the service. */
const PARTS = [
  'package.json',
  'api',
  'db',
  'deploy',
  'sandbox-child',
  'sdk',
  'service',
  'supervisor',
  'console',
  'docs',
];
/** Building the pages takes longer than everything else. */
const BUILDERS = ['console/build-console.ts', 'docs/build-site.ts'];

export interface ReleaseCopy {
  readonly folder: string;
  /** Path of `npm start`'s program. */
  readonly main: string;
  /** Replaces one text of a file. @returns puts it back */
  patch(path: string, from: string, to: string): Promise<() => Promise<void>>;
  write(path: string, text: string): Promise<void>;
  pathOf(path: string): string;
  /** Puts the code of this checkout in place of the copy's. */
  upgrade(): Promise<void>;
}

/** @param commit the release that the copy begins with. Default: this checkout */
export async function copyRelease(t: Teardown, commit?: string): Promise<ReleaseCopy> {
  const folder = await temporaryFolder(t);
  const pathOf = (path: string): string => join(folder, path);
  const upgrade = async (): Promise<void> => {
    for (const part of PARTS) {
      await rm(pathOf(part), { recursive: true, force: true });
      await cp(join(ROOT, part), pathOf(part), { recursive: true, filter: isSource });
    }
    await leaveOutPages();
  };
  const leaveOutPages = async (): Promise<void> => {
    for (const builder of BUILDERS) await writeFile(pathOf(builder), '');
  };
  if (commit === undefined) await upgrade();
  else {
    const archive = join(folder, 'release.tar');
    await promisify(execFile)('git', ['-C', ROOT, 'archive', '-o', archive, commit]);
    await promisify(execFile)('tar', ['-xf', archive, '-C', folder]);
    await leaveOutPages();
  }
  await symlink(join(ROOT, 'node_modules'), pathOf('node_modules'));
  return {
    folder,
    main: pathOf('deploy/local.ts'),
    pathOf,
    upgrade,
    async patch(path, from, to) {
      const before = await readFile(pathOf(path), 'utf8');
      if (!before.includes(from)) throw new Error(`${path} does not contain “${from}”`);
      await writeFile(
        pathOf(path),
        before.replace(from, () => to),
      );
      return () => writeFile(pathOf(path), before);
    },
    async write(path, text) {
      await mkdir(dirname(pathOf(path)), { recursive: true });
      await writeFile(pathOf(path), text);
    },
  };
}

/** Gives the copy a Node of its own in place of this checkout's, as `npm ci` does. @returns the path of Node */
export async function installNode({ folder, pathOf }: ReleaseCopy): Promise<string> {
  // Plugins run as another user if root runs the test.
  await chmod(folder, 0o755);
  const [from, to] = [join(ROOT, 'node_modules'), pathOf('node_modules')];
  await rm(to);
  await mkdir(to);
  const node = `node-linux-${process.arch}`;
  for (const name of await readdir(from)) if (name !== node) await symlink(join(from, name), join(to, name));
  await cp(join(from, node), join(to, node), { recursive: true });
  return join(to, node, 'bin', 'node');
}

export interface OldRelease {
  readonly commit: string;
  /** Its newest migration. */
  readonly newest: string;
  /** Whether its `npm start` migrates at a replacement. */
  readonly migrates: boolean;
}

/** Commits that follow each other faster were brought here together: only the last of them was run. Seconds. */
const TOGETHER_S = 60;

/**
 * The last commit that was run before each of the last changes of the tables, newest first, from which an upgrade is possible:
 * all its migrations come before those that it lacks.
 *
 * @returns empty where the history is not there
 */
export function listOldReleases(max: number): OldRelease[] {
  const git = (...args: string[]): string[] => {
    const output = execFileSync('git', ['-C', ROOT, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return output.split('\n').filter((line) => line !== '');
  };
  const findLastRun = (change: string): string => {
    const commits = git('log', '--format=%H %ct', change).map((line) => line.split(' '));
    const before = commits.findIndex(([, at], index) => Number(commits[index - 1]?.[1]) - Number(at) >= TOGETHER_S);
    return commits[before]?.[0] ?? `${change}^`;
  };
  const found = new Map<string, OldRelease>();
  const all = readdirSync(MIGRATIONS).sort();
  try {
    for (const change of git('log', '--diff-filter=A', '--format=%H', '--', 'db/migrations')) {
      const commit = findLastRun(change);
      const files = git('ls-tree', '-r', '--name-only', commit, 'db/migrations', 'deploy/replacement.ts');
      const own = files.filter((file) => file.endsWith('.sql')).map((file) => file.slice('db/migrations/'.length));
      const newest = own.at(-1);
      if (newest === undefined || own.length === all.length || own.some((name, at) => name !== all[at])) continue;
      if (found.size === max) break;
      if (!found.has(newest)) found.set(newest, { commit, newest, migrates: files.includes('deploy/replacement.ts') });
    }
  } catch {
    // Not a clone, or a shallow one: the changes that it has were listed.
  }
  return [...found.values()];
}

const isSource = (path: string): boolean => !/\/(node_modules|dist|\.build-[^/]*)$/.test(path);

/** Where the requests of the test read an account and its sessions. */
const QUERIES = [
  ['db/accounts/accounts.ts', 'FROM accounts WHERE issuer = $1 AND subject = $2', 'accounts'],
  ['db/sessions/sessions.ts', 'FROM sessions WHERE account_id = $1 AND ($2', 'sessions'],
] as const;

/** A program that builds a release's documentation, which consists of one text. */
const BUILD_DOCS = (text: string) => `
  import { mkdirSync, writeFileSync } from 'node:fs';
  mkdirSync(new URL('./dist/assets', import.meta.url), { recursive: true });
  writeFileSync(new URL('./dist/index.html', import.meta.url), ${JSON.stringify(text)});
`;

/** Turns the copy into the release of that number: its code fails on the tables of earlier releases. */
export async function release(copy: ReleaseCopy, number: number): Promise<void> {
  for (let each = 1; each <= number; each += 1) {
    const columns = QUERIES.map(
      ([, , table]) => `ALTER TABLE ${table} ADD COLUMN release_${each} text NOT NULL DEFAULT 'x';`,
    );
    await copy.write(`db/migrations/900${each}_release.sql`, ['-- Up Migration', ...columns].join('\n'));
  }
  await copy.write('docs/build-site.ts', BUILD_DOCS(`pages of release ${number}`));
  for (const [path, query] of QUERIES) {
    // The copy may be another release already.
    await cp(join(ROOT, path), copy.pathOf(path));
    await copy.patch(path, query, query.replace('WHERE', `WHERE release_${number} = 'x' AND`));
  }
}
