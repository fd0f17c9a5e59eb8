/**
 * Each row of the executable specification fails when its rule is broken. The quick run looks whether every change still finds
 * the text that it replaces; the long one starts a changed copy of the tree for each and expects the named row to fail.
 */
import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { chapters } from '../../conform/chapters/chapters.ts';
import type { Result } from '../../conform/check-rows.ts';
import { startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { listFiles, root } from '../house/source-files.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { amount } from '../runner/soak.ts';
import { type Mutation, mutations } from './mutations.ts';
import { NO_RATE_LIMITS } from './shared-service.ts';

const MUTATIONS_MIN = 20;
const OUTPUT_MAX_BYTES = 10_000_000;
/** The files from which a service is started. */
const TREE = ['*.ts', '*.js', '*.json', '*.sql', '*.sh', '*.md', 'package.json', 'console/dist/**', 'docs/dist/**'];

t.test('every mutation names a row and a text that exists once', async (t) => {
  t.ok(mutations.length >= MUTATIONS_MIN, `${mutations.length} mutations`);
  const sentences = chapters.flatMap(({ rows }) => rows.map(({ sentence }) => sentence));
  for (const { row, file, from } of mutations) {
    t.ok(
      sentences.some((sentence) => sentence.includes(row)),
      row,
    );
    t.equal((await readFile(join(root, file), 'utf8')).split(from).length - 1, 1, `${file}: ${from}`);
  }
});

t.test(
  'each one is caught by its row',
  { skip: amount<string | false>({ quick: 'with --soak', soak: false }) },
  async (t) => {
    const tree = await copyTree(join(await temporaryFolder(t), 'tree'));
    for (const mutation of mutations)
      await t.test(mutation.row, async (t) => {
        const path = join(tree, mutation.file);
        const text = await readFile(path, 'utf8');
        await writeFile(
          path,
          text.replace(mutation.from, () => mutation.to),
        );
        t.teardown(() => writeFile(path, text));
        const service = await startServiceOnTestDatabase(t, NO_RATE_LIMITS, join(tree, 'deploy/local.ts'));
        const results = await checkRow(service, (await service.asUser('somebody-else')).token, mutation);
        t.ok(results.length > 0, 'the row was checked');
        t.ok(
          results.every(({ verdict }) => verdict === 'failed'),
          JSON.stringify(results),
        );
        for (const { reason } of results) t.comment(String(reason).slice(0, 200));
      });
  },
);

async function copyTree(to: string): Promise<string> {
  for (const path of listFiles(...TREE)) {
    await mkdir(dirname(join(to, path)), { recursive: true });
    await cp(join(root, path), join(to, path));
  }
  await symlink(join(root, 'node_modules'), join(to, 'node_modules'));
  return to;
}

async function checkRow(service: { url: string; token: string }, other: string, { row }: Mutation): Promise<Result[]> {
  const args = [`${service.url}/api`, service.token, '--other', other, '--only', row, '--keep', '--json'];
  const program = [join(root, 'conform/conform.ts'), ...args];
  const options = { maxBuffer: OUTPUT_MAX_BYTES };
  const run = await promisify(execFile)(process.execPath, program, options).catch((error: { stdout: string }) => error);
  return JSON.parse(run.stdout);
}
