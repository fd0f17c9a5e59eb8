/** What a capability allows: its sentence for users, and which other capabilities it covers. */
import t from 'tap';
import {
  describeCapability,
  findCapabilityFault,
  findSecretUseFault,
  intersectCapabilities,
} from '../../sdk/contract/capabilities.ts';
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

t.test('a capability that cannot be declared is refused with the rule that it breaks', (t) => {
  const rules: Readonly<Record<string, RegExp>> = {
    'host.http:': /the host is missing/,
    'host.http:https://api.example.com': /leave out the scheme/,
    'host.http:api.example.com/v1': /leave out the path/,
    'host.http:api.example.com:8080': /leave out the port/,
    'host.http:127.0.0.1': /an IP address cannot be declared/,
    'host.http:127.0.0.1:80': /an IP address/,
    'host.http:[::1]': /an IP address/,
    'host.http:API.example.com': /in lower case/,
    'host.http:bücher.example': /in ASCII, with xn--/,
    'host.http:localhost': /needs two parts/,
    'host.http:*.com': /needs two parts/,
    'host.http:*': /“\*” stands only in front/,
    'host.http:api.*.com': /“\*” stands only in front/,
    'host.http:-a.example.com': /each part of the name has 1-63 letters/,
    'tools.a': /registering it in the code declares it\. Leave it out$/,
    'middleware.systemPrompt': /registering it/,
    channel: /registering it/,
    'host.secrets': /host\.secrets needs none\. Leave it out$/,
    'host.log': /host\.log needs none/,
    fetch: /declare each host that the code asks, such as host\.http:/,
    'host.fetch': /declare each host/,
    'host.http': /declare each host/,
    'secrets.key': /a secret is declared in secrets/,
    'host.llm:read': /host\.llm has no form that only reads/,
    'host.lm': /Examples: host\.llm/,
    constructor: /Examples: host\.llm/,
  };
  for (const [capability, rule] of Object.entries(rules)) {
    const fault = findCapabilityFault(capability) ?? '';
    t.ok(fault.startsWith(`“${capability}” is not a capability`), fault);
    t.match(fault, rule, capability);
  }
  for (const valid of ['host.llm', 'host.workspace:read', 'host.http:api.example.com', 'host.http:*.example.com'])
    t.equal(findCapabilityFault(valid), null, valid);
  t.match(
    findSecretUseFault('http:API.example.com'),
    /“http:API\.example\.com” is not a use: write the name in lower case\. /,
  );
  t.match(findSecretUseFault('http:*.example.com'), /is not a use\. Write webhooks/);
  t.equal(findSecretUseFault('http:api.example.com'), null);
  t.end();
});
