/** What a capability allows: its sentence for users, and which other capabilities it covers. */
import t from 'tap';
import { describeCapability, intersectCapabilities } from '../../sdk/contract/capabilities.ts';
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

t.test('two sets have in common what both cover, in its narrower form', async (t) => {
  const cases: [readonly string[], readonly string[], readonly string[]][] = [
    [['host.workspace', 'tools.slow'], ['tools.slow'], ['tools.slow']],
    [['host.workspace'], ['host.workspace:read'], ['host.workspace:read']],
    [['host.http:*.example.com', 'host.llm'], ['host.http:api.example.com'], ['host.http:api.example.com']],
    [['secrets.key'], ['secrets.key:webhooks'], ['secrets.key:webhooks']],
    [['secrets.key'], ['secrets.other'], []],
  ];
  for (const [one, other, both] of cases) {
    t.same(intersectCapabilities(one, other), both);
    t.same(intersectCapabilities(other, one), both);
  }
});
