/** Texts of JSON that PostgreSQL cannot store. */
import t from 'tap';
import { findUnstorable } from '../../../db/postgres/storable-json.ts';

t.test('a field name that is cut in a refusal ends without half of a surrogate pair', async (t) => {
  const name = `${'a'.repeat(199)}😀`;
  t.equal(findUnstorable({ [name]: '\0' }), `${'a'.repeat(199)}\u{fffd}`);
  t.equal(findUnstorable({ '\0': 1 }), '\u{fffd}');
  t.equal(findUnstorable({ [name]: '😀' }), null);
});
