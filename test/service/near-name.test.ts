/** The name that an author probably meant, and what the search for it costs. */
import t from 'tap';
import { findNearName } from '../../service/text/near-name.ts';

/** A known name that counts how often a comparison reads it. */
class CountedName extends String {
  reads = 0;

  override charCodeAt(at: number): number {
    this.reads += 1;
    return super.charCodeAt(at);
  }
}

t.test('the nearest name within the edits', async (t) => {
  t.equal(findNearName('enmu', ['const', 'enum', 'type'], 2), 'enum');
  t.equal(findNearName('enmu', ['const', 'type'], 2), null);
  t.equal(findNearName('enum', [], 2), null);
});

t.test('a third of a name may be wrong, and three letters of a long one', async (t) => {
  t.equal(findNearName('add', ['all', 'run']), null);
  t.equal(findNearName('ad', ['add', 'run']), 'add');
  t.equal(findNearName('descriptoin', ['description']), 'description');
  t.equal(findNearName('describers', ['description']), null);
});

t.test('a name that is too long for any is compared with none', async (t) => {
  const known = [new CountedName('enum'), new CountedName('const')];
  const search = (name: string) => findNearName(name, known as unknown as string[], 2);
  t.equal(search('ab'.repeat(600_000)), null);
  t.same(
    known.map(({ reads }) => reads),
    [0, 0],
  );
  search('enmu');
  t.ok(known.every(({ reads }) => reads > 0));
});
