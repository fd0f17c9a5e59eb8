/** The guide to three machines says everything that a machine needs. */
import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import t from 'tap';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** The packages of each `apt-get install` of a text. */
function listInstalled(text: string): string[][] {
  const commands = [...text.matchAll(/apt-get install ([^`\n]+)/g)].map(([, words = '']) => words.split(' '));
  return commands.map((words) => words.filter((word) => !word.startsWith('-')));
}

t.test('every machine has the packages of a machine for production', async (t) => {
  const [, sentence = ''] = /\*\*For production, install the packages: (.*)/.exec(read('docs/operating.md')) ?? [];
  const [production = []] = listInstalled(sentence);
  t.same(production, ['bubblewrap', 'libatomic1']);
  const [, steps = ''] = read('docs/high-availability.md').split('\n## Set it up\n');
  const [trial = []] = listInstalled(read('docs/high-availability.md'));
  const [withDatabase, without, ...others] = listInstalled(steps);
  t.same(withDatabase, [...production, ...trial]);
  t.same(without, [...production, 'etcd-server', 'haproxy']);
  t.same(others, []);
});

t.test('the folder of PostgreSQL’s programs is that of the machine’s version', async (t) => {
  const example = read('deploy/ha/machine.env.example');
  const { POSTGRES_BIN_DIR = '', PATRONI_POSTGRESQL_BIN_DIR } = parseEnv(example);
  t.equal(PATRONI_POSTGRESQL_BIN_DIR, POSTGRES_BIN_DIR);
  t.match(POSTGRES_BIN_DIR, /^\/usr\/lib\/postgresql\/\d+\/bin$/);
  for (const text of [example, read('docs/high-availability.md')])
    t.match(text, '`ls -d /usr/lib/postgresql/*/bin`', 'where its name is, which differs between releases of Debian');
});

t.test('a supervisor without a jail does not start there, and nothing is downloaded', async (t) => {
  t.equal(parseEnv(read('deploy/ha/machine.env.example')).SANDBOX, 'require');
  for (const unit of ['api', 'supervisor'])
    t.match(read(`deploy/systemd/bulkhead-${unit}.service`), /^Environment=SANDBOX_FETCH=off$/m);
});
