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
