import t from 'tap';
import { removeTrailingSlashes } from '../../sdk/session/web-addresses.ts';

t.test('the slashes at the end of an address are removed, and no others', async (t) => {
  t.equal(removeTrailingSlashes('https://a.example/b//'), 'https://a.example/b');
  t.equal(removeTrailingSlashes('https://a.example//b'), 'https://a.example//b');
  t.equal(removeTrailingSlashes('///'), '');
  t.equal(removeTrailingSlashes(''), '');
});

t.test('an address of many slashes is read in linear time', async (t) => {
  // Took half an hour of processor time when the end was searched behind each slash.
  const address = `${'/'.repeat(1_000_000)}x`;
  t.equal(removeTrailingSlashes(address), address);
});
