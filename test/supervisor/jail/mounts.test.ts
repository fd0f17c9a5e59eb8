import { execPath } from 'node:process';
import t from 'tap';
import { mounts, sharedLibraries } from '../../../supervisor/jail/mounts.ts';

t.test('a library is mounted where Node in the jail looks for it', async (t) => {
  const [library = ''] = sharedLibraries();
  // Existing files, because links are resolved. This one stands for a library next to Node.
  const beside = '/proc/self/../self/exe';
  const words = mounts(execPath, [library, beside], '/proc/self');
  t.same(words.slice(1, 3), [words[1], library], 'of the system: the same');
  t.equal(words[5], '/self/exe', 'found from the folder of Node: as far from the one inside');
  t.same(words.slice(6), ['--ro-bind', words[7], '/node']);
});
