/** The sentence that a user reads before the install names everything that the capability allows. */
import t from 'tap';
import { describeCapability } from '../../sdk/contract/capabilities.ts';
import { surfaces } from '../../sdk/contract/protocol.ts';

t.test('the sentence of the channel names what all of its handlers do, at the highest risk', async (t) => {
  const { sentence, risk } = describeCapability('channel');
  t.match(sentence, /receives webhooks/i);
  t.match(sentence, /verify its webhook address/);
  t.match(sentence, /sends your agents’ replies/);
  t.equal(risk, 'high');
  for (const [name, row] of Object.entries(surfaces))
    if (name.startsWith('channel.')) t.match(row, { reach: sentence, risk }, `${name} is described by its capability`);
});
