/** What an operator may write into `HTTP_ALLOW_PRIVATE`, `PEER_HOST` and limits, what stops start-up, and what is only reported. */
import t from 'tap';
import { describeConflictingLimits, readConfig } from '../../../supervisor/config.ts';

t.test('targets are a name and a port, separated by commas', async (t) => {
  const read = (text: string) => [...readConfig({ HTTP_ALLOW_PRIVATE: text }).HTTP_ALLOW_PRIVATE];
  t.same(read(''), [], 'none unless somebody says so');
  t.same(read('Wiki.Internal.Example:8080, b.example:443,'), ['wiki.internal.example:8080', 'b.example:443']);
});

t.test('anything else is refused by name', async (t) => {
  for (const text of [
    '*',
    'wiki.example',
    '*.example:80',
    'http://wiki.example:80',
    'wiki.example:x',
    ' a b:80',
    'a:99999',
    'a:0',
  ])
    t.throws(() => readConfig({ HTTP_ALLOW_PRIVATE: text }), {
      name: 'SettingsError',
      message: 'HTTP_ALLOW_PRIVATE must be host:port, separated by commas.',
    });
});

t.test('the address for other supervisors is one that they can reach', async (t) => {
  for (const host of ['0.0.0.0', '::', '[::]', '0:0:0:0:0:0:0:0', '0'])
    t.throws(() => readConfig({ PEER_HOST: host }), {
      name: 'SettingsError',
      message: /^PEER_HOST must be an address /,
    });
  for (const host of ['10.0.0.1', '::1', 'fd00::', 'machine-1'])
    t.equal(readConfig({ PEER_HOST: host }).PEER_HOST, host);
});

t.test('limits that do not fit are reported', async (t) => {
  const memory = 24e9;
  t.same(describeConflictingLimits(readConfig({}), memory), []);
  t.match(describeConflictingLimits(readConfig({ HEAP_MEGABYTES: '256', CHILDREN: '10000' }), memory), [
    /^HEAP_MEGABYTES \(256\) is not below RESIDENT_MEGABYTES \(256\), /,
    /^CHILDREN \(10000\) idle plugin processes use about 140000 MB, and this machine has 24000 MB: /,
  ]);
});
