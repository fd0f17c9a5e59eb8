/** Which addresses a plugin's request may be sent to. */
import t from 'tap';
import { isPublicAddress } from '../../../supervisor/host/http/addresses.ts';
import { resolveTarget } from '../../../supervisor/host/http/resolution.ts';

const open = [
  '8.8.8.8',
  '1.1.1.1',
  '172.32.0.1',
  '100.128.0.1',
  '168.63.129.15',
  '2606:4700:4700::1111',
  '2a00:1450:4001::1',
];
const closed = {
  private: ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', 'fc00::1', 'fd12::1'],
  loopback: ['127.0.0.1', '127.255.255.254', '::1'],
  unspecified: ['0.0.0.0', '0.1.2.3', '::'],
  'link-local': ['169.254.169.254', 'fe80::1', 'fe80::1%eth0', '2606:4700::1%eth0'],
  'carrier-grade NAT': ['100.64.0.1', '100.127.255.255'],
  'a cloud platform inside its machine': ['168.63.129.16'],
  'multicast and broadcast': ['224.0.0.1', '239.1.1.1', '255.255.255.255', 'ff02::1'],
  reserved: [
    '240.0.0.1',
    '192.0.2.1',
    '198.51.100.1',
    '203.0.113.1',
    '198.18.0.1',
    '2001:db8::1',
    'fec0::1',
    '4000::1',
  ],
  'an IPv4 address inside': [
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:8.8.8.8',
    '::127.0.0.1',
    '2002:7f00:1::',
    '64:ff9b::7f00:1',
    '64:ff9b:1::a00:1',
    '2001:0:4136:e378:8000:63bf:3fff:fdd2',
  ],
  'other notations': ['2130706433', '0x7f000001', '0177.0.0.1', '127.1', '0x7f.1', '8', '', 'example.com', ' 8.8.8.8'],
};

t.test('addresses of the public internet are open', async (t) => {
  for (const address of open) t.equal(isPublicAddress(address), true, address);
});

for (const [kind, addresses] of Object.entries(closed))
  t.test(`closed: ${kind}`, async (t) => {
    for (const address of addresses) t.equal(isPublicAddress(address), false, address || '(empty)');
  });

t.test('the operator may open the address of a cloud platform', async (t) => {
  const url = new URL('http://168.63.129.16/');
  const resolve = (allowed: readonly string[]) =>
    resolveTarget(url, { allowPrivate: new Set(allowed), dnsServers: [] }, new AbortController().signal);
  await t.rejects(resolve([]), { message: /^168\.63\.129\.16 has an address that is not public/ });
  t.same(await resolve(['168.63.129.16:80']), ['168.63.129.16']);
});
