/** The values that the form of an installation's settings and secrets shows, and which of them are missing. */
import t from 'tap';
import {
  changeSetting,
  type Fields,
  findConflict,
  listMissing,
  NOTHING_STORED,
  readSetting,
  UNCHANGED,
} from '../../console/configuration/form-values.ts';
import { findMissingConfiguration, manifest } from '../../sdk/contract/manifest.ts';

const NAMES = ['constructor', 'toString', 'apiKey'];

const describeField = (name: string) => ({ name, label: name, description: null, required: true });

t.test('a field that is named like a member of every object has no value until the user gives one', async (t) => {
  for (const name of NAMES) {
    const setting: Fields['settings'][number] = { ...describeField(name), default: null, enum: null };
    const fields: Fields = { settings: [setting], secrets: [{ ...describeField(name), use: null }] };
    t.equal(readSetting(setting, UNCHANGED, NOTHING_STORED), '', name);
    t.same(listMissing(fields, UNCHANGED, NOTHING_STORED), fields, `${name} is missing`);
    t.equal(findConflict(name, UNCHANGED, NOTHING_STORED), null);
    const filled = changeSetting(UNCHANGED, NOTHING_STORED, name, 'typed');
    t.equal(readSetting(setting, filled, NOTHING_STORED), 'typed');
    t.same(filled.replaced, { [name]: '' });
  }
});

t.test('a required setting with an empty default is missing, as the service says', async (t) => {
  const frontmatter = { required: true, default: '' };
  const declared = manifest.parse({ name: 'A plugin', description: 'A plugin.', settings: { url: frontmatter } });
  t.same(findMissingConfiguration(declared, {}, []), ['url']);
  const setting: Fields['settings'][number] = { ...describeField('url'), default: '', enum: null };
  const fields: Fields = { settings: [setting], secrets: [] };
  t.same(listMissing(fields, UNCHANGED, NOTHING_STORED), fields);
  t.same(listMissing(fields, changeSetting(UNCHANGED, NOTHING_STORED, 'url', 'x'), NOTHING_STORED).settings, []);
  const filled: Fields = { settings: [{ ...setting, default: 'https://example.com' }], secrets: [] };
  t.same(listMissing(filled, UNCHANGED, NOTHING_STORED).settings, []);
});
