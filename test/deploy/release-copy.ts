/** A copy of this checkout that a test turns into the next release while the service runs from it. */
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** What the service consists of. */
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
  /** Path of `npm start`'s program. */
  readonly main: string;
  /** Replaces one text of a file. @returns puts it back */
  patch(path: string, from: string, to: string): Promise<() => Promise<void>>;
  write(path: string, text: string): Promise<void>;
  pathOf(path: string): string;
}

export async function copyRelease(t: Teardown): Promise<ReleaseCopy> {
  const folder = await temporaryFolder(t);
  const pathOf = (path: string): string => join(folder, path);
  for (const part of PARTS) await cp(join(ROOT, part), pathOf(part), { recursive: true, filter: isSource });
  await symlink(join(ROOT, 'node_modules'), pathOf('node_modules'));
  for (const builder of BUILDERS) await writeFile(pathOf(builder), '');
  return {
    main: pathOf('deploy/local.ts'),
    pathOf,
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

const isSource = (path: string): boolean => !/\/(node_modules|dist|\.build-[^/]*)$/.test(path);

/** Where the requests of the test read an account and its sessions. */
const QUERIES = [
  ['db/accounts/accounts.ts', 'FROM accounts WHERE issuer = $1 AND subject = $2', 'accounts'],
  ['db/sessions/sessions.ts', 'FROM sessions WHERE account_id = $1 AND ($2', 'sessions'],
] as const;

/** Turns the copy into the release of that number: its code fails on the tables of the releases before. */
export async function release(copy: ReleaseCopy, number: number): Promise<void> {
  for (let each = 1; each <= number; each += 1) {
    const columns = QUERIES.map(
      ([, , table]) => `ALTER TABLE ${table} ADD COLUMN release_${each} text NOT NULL DEFAULT 'x';`,
    );
    await copy.write(`db/migrations/900${each}_release.sql`, ['-- Up Migration', ...columns].join('\n'));
  }
  for (const [path, query] of QUERIES) {
    // The copy may be another release already.
    await cp(join(ROOT, path), copy.pathOf(path));
    await copy.patch(path, query, query.replace('WHERE', `WHERE release_${number} = 'x' AND`));
  }
}
