/** A command that is code and a file: refused, with both places. */
import t from 'tap';
import { startApiFixture } from '../api-fixture.ts';
import { fileList, README } from './packages.ts';

t.test('both places are named', async (t) => {
  const ann = await (await startApiFixture(t)).user('ann');
  const { id } = (await ann.post('/plugins', { slug: 'doubled', displayName: 'Doubled' })).body;
  const index = '\n\ncommands.a = { description: "x", handler: () => "" };';
  const files = fileList({ 'readme.md': README, 'index.ts': index, 'commands/a.md': 'x' });
  const { body } = await ann.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files });
  t.match(body.errors, [
    { path: 'commands/a.md', message: 'The command “a” is registered in index.ts as well.' },
    { path: 'index.ts', line: 3, column: Number, message: 'The command “a” is the file commands/a.md as well.' },
  ]);
});
