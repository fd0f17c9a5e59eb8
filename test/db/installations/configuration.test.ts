/** Settings and secrets that an installation lacks, as people read them. */
import t from 'tap';
import { labelMissingConfiguration } from '../../../db/installations/configuration.ts';
import { manifest } from '../../../sdk/contract/manifest.ts';

t.test('what is missing has its label, also where a setting and a secret have the same name', async (t) => {
  const both = manifest.parse({
    name: 'Mail',
    description: 'Sends mail.',
    settings: { account: { label: 'Address', required: true }, city: { required: true } },
    secrets: { account: { label: 'Password', required: true } },
  });
  t.equal(labelMissingConfiguration(both, {}, []), 'Address (account), city, Password (account)');
  t.equal(labelMissingConfiguration(both, { account: 'a', city: 'b' }, []), 'Password (account)');
  t.equal(labelMissingConfiguration(both, {}, ['account']), 'Address (account), city');
});
