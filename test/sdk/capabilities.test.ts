/** What a capability allows: its sentence for users, and which other capabilities it covers. */
import fc from 'fast-check';
import t from 'tap';
import {
  describeCapability,
  findCapabilityFault,
  findMissingCapabilities,
  findSecretUseFault,
  intersectCapabilities,
  listGrantedCalls,
  REMEMBERED_SECRETS_MAX,
} from '../../sdk/contract/capabilities.ts';
import { FIELDS_MAX } from '../../sdk/contract/manifest.ts';
import { capabilities, surfaces } from '../../sdk/contract/protocol.ts';
import { seed } from '../runner/soak.ts';

t.test('the sentence of the channel names what all of its handlers do, at the highest risk', async (t) => {
  const { sentence, risk } = describeCapability('channel');
  t.match(sentence, /receives webhooks/i);
  t.match(sentence, /verify its webhook address/);
  t.match(sentence, /sends your agents’ replies/);
  t.equal(risk, 'high');
  for (const [name, row] of Object.entries(surfaces))
    if (name.startsWith('channel.')) t.match(row, { reach: sentence, risk }, `${name} is described by its capability`);
});

t.test('each member has a form that only reads, and its holder is asked before the member is granted', async (t) => {
  for (const member of Object.keys(capabilities)) {
    const [whole, read] = [`host.${member}`, `host.${member}:read`];
    t.equal(findCapabilityFault(read), null, read);
    t.same(findMissingCapabilities([whole], [read]), [whole]);
    t.same(findMissingCapabilities([read], [whole]), []);
  }
  const { sentence, risk } = describeCapability('host.llm:read');
  t.same({ sentence, risk }, { sentence: 'Calls none of your language models.', risk: 'low' });
  t.notOk(listGrantedCalls(['host.llm:read']).includes('llm.complete'));
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

/** Whether a grant covers a capability, written for one pair. */
function isCovered(capability: string, grant: string): boolean {
  if (grant === capability || `${grant}:read` === capability) return true;
  if (/^secrets\.[\w-]+$/.test(grant)) return capability.startsWith(`${grant}:`);
  if (!grant.startsWith('host.http:*.') || !capability.startsWith('host.http:')) return false;
  return capability.endsWith(grant.slice('host.http:*'.length));
}

t.test('looking grants up finds what comparing each pair finds', async (t) => {
  const host = fc
    .tuple(fc.constantFrom('', '*.'), fc.array(fc.constantFrom('a', 'b', 'example'), { minLength: 1, maxLength: 4 }))
    .map(([star, labels]) => `${star}${labels.join('.')}.com`);
  const name = fc.constantFrom<string>('a', 'ab', 'b', 'a-b');
  const capability = fc.oneof(
    host.map((of) => `host.http:${of}`),
    name.map((of) => `secrets.${of}`),
    fc.tuple(name, host).map(([of, to]) => `secrets.${of}:http:${to.replace('*.', '')}`),
    name.map((of) => `secrets.${of}:webhooks`),
    fc.constantFrom(
      'host.workspace',
      'host.workspace:read',
      'host.llm',
      'tools.a',
      'channel',
      'middleware.systemPrompt',
    ),
  );
  const set = fc.uniqueArray(capability, { maxLength: 12 });
  const isSame = fc.property(set, set, set, fc.uniqueArray(name), (one, other, allowed, names) => {
    const both = [
      ...one.filter((wanted) => other.some((grant) => isCovered(wanted, grant))),
      ...other.filter((wanted) => one.some((grant) => isCovered(wanted, grant))),
    ];
    t.same(intersectCapabilities(one, other), [...new Set(both)]);
    const missing = one.filter((wanted) => {
      const [, secret] = /^secrets\.([\w-]+)/.exec(wanted) ?? [];
      const isGiven = secret !== undefined && names.includes(secret);
      const isNew = secret !== undefined && !other.some((grant) => grant.startsWith(`secrets.${secret}:`));
      if (!isGiven && isNew) return false;
      return !(isGiven ? allowed : other).some((grant) => isCovered(wanted, grant));
    });
    t.same(findMissingCapabilities(one, other, { names, allowed }), missing);
    return true;
  });
  fc.assert(isSame, { seed, numRuns: 500 });
});

t.test('beyond the handles that are remembered, a new secret needs consent', async (t) => {
  t.ok(REMEMBERED_SECRETS_MAX >= 2 * FIELDS_MAX, 'those of a version, and as many before it');
  const handles = Array.from({ length: REMEMBERED_SECRETS_MAX }, (_, index) => `secrets.s${index}:webhooks`);
  const wanted = ['secrets.new', 'secrets.other:webhooks', 'secrets.s1:webhooks'];
  t.same(findMissingCapabilities(wanted, handles.slice(1)), []);
  t.same(findMissingCapabilities(wanted, handles), ['secrets.new', 'secrets.other:webhooks']);
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

t.test('the fault of a host of many colons is found in linear time', (t) => {
  // Took minutes of processor time when the expression tried every pair of colons.
  const host = `${'0:'.repeat(8_000)}\n`;
  t.match(findCapabilityFault(`host.http:${host}`), /an IP address cannot be declared/);
  t.match(findSecretUseFault(`http:${host}`), /an IP address cannot be declared/);
  for (const address of ['1.2.3.4', '1.2.3.4:80', '::1', '[2001:db8::1]:80'])
    t.match(findCapabilityFault(`host.http:${address}`), /an IP address cannot be declared/, address);
  t.match(findCapabilityFault('host.http:api.example.com:80'), /leave out the port/);
  t.end();
});
