/** The key of the cluster comes from a variable, a file or a program; whatever is wrong is said without the key. */
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { readClusterKey } from '../../service/storage/cluster-key.ts';
import { temporaryFolder } from '../runner/harness.ts';

const KEY = Buffer.alloc(32, 7);
const TEXT = KEY.toString('base64');
const folder = await temporaryFolder(t);

async function program(name: string, script: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o700);
  return path;
}

t.test('each source gives the key', async (t) => {
  const file = join(folder, 'key');
  await writeFile(file, `${TEXT}\n`);
  t.same(await readClusterKey({ DATA_DIR: '', CLUSTER_KEY: TEXT }), KEY);
  t.same(await readClusterKey({ DATA_DIR: '', CLUSTER_KEY_FILE: file }), KEY);
  // Without a shell, $HOME and the semicolon are ordinary words.
  const print = await program('print', `[ "$1 $2" = '$HOME ;' ] && echo ${TEXT}`);
  t.same(await readClusterKey({ DATA_DIR: '', CLUSTER_KEY_COMMAND: `${print} $HOME ;` }), KEY);
  t.equal(await readClusterKey({ DATA_DIR: '' }), null);
});

for (const [name, settings, message] of [
  ['two sources', { CLUSTER_KEY: TEXT, CLUSTER_KEY_FILE: '/x' }, 'Set only one of CLUSTER_KEY and CLUSTER_KEY_FILE.'],
  [
    'a short key',
    { CLUSTER_KEY: 'c2hvcnQ=' },
    'CLUSTER_KEY must give 32 bytes in base64: make a key with openssl rand -base64 32.',
  ],
  ['a missing file', { CLUSTER_KEY_FILE: '/nowhere' }, 'CLUSTER_KEY_FILE /nowhere cannot be read (ENOENT).'],
  [
    'a missing program',
    { CLUSTER_KEY_COMMAND: '/nowhere --decrypt' },
    'CLUSTER_KEY_COMMAND /nowhere failed: it cannot be started (ENOENT).',
  ],
] as const)
  t.test(`refused: ${name}`, async (t) => {
    await t.rejects(readClusterKey({ DATA_DIR: '', ...settings }), { name: 'SettingsError', message });
  });

t.test('a program that fails or prints too much is refused, without its output', async (t) => {
  const failing = await program('fail', `echo ${TEXT}; exit 3`);
  await t.rejects(readClusterKey({ DATA_DIR: '', CLUSTER_KEY_COMMAND: failing }), {
    message: `CLUSTER_KEY_COMMAND ${failing} failed: it ended with 3.`,
  });
  const endless = await program('endless', 'exec yes');
  await t.rejects(readClusterKey({ DATA_DIR: '', CLUSTER_KEY_COMMAND: endless }), {
    message: `CLUSTER_KEY_COMMAND ${endless} failed: it printed more than 4096 bytes.`,
  });
});
