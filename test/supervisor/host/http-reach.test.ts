/** Which addresses lie within an installation's grants. */
import t from 'tap';
import { readTarget } from '../../../supervisor/host/http/reach.ts';

const granted = [
  'host.llm',
  'host.http:api.example.com',
  'host.http:*.wild.example',
  'host.http:xn--bcher-kva.example',
];

const within = [
  'https://api.example.com/x?y=1',
  'http://API.Example.COM:8080/',
  'https://api.example.com./',
  'https://a.wild.example/',
  'https://a.b.wild.example/',
  'https://bücher.example/',
];
const outside = [
  'https://example.com/',
  'https://www.api.example.com/',
  'https://api.example.com.evil.test/',
  'https://api.example.com%2eevil.test/',
  'https://wild.example/',
  'https://.wild.example/',
  'https://evilwild.example/',
  'https://evil.test/#api.example.com',
  'https://evil.test\\@api.example.com/',
  'http://127.0.0.1/',
  'http://127.0.0.1./',
  'http://2130706433/',
  'http://0x7f.1/',
  'http://0177.0.0.1/',
  'http://[::ffff:127.0.0.1]/',
  'http://localhost/',
];

t.test('a granted host is reached, however it is written', async (t) => {
  for (const address of within) t.ok(readTarget(address, granted), address);
});

t.test('no other host is', async (t) => {
  for (const address of outside) t.throws(() => readTarget(address, granted), { name: 'HostError' }, address);
});

t.test('other schemes, user names and invalid addresses are rejected', async (t) => {
  t.throws(() => readTarget('file:///etc/passwd', granted), /only http: and https:/);
  t.throws(() => readTarget('https://user:pw@api.example.com/', granted), /user name or password/);
  t.throws(() => readTarget('//api.example.com/', granted), /not a URL/);
});

t.test('a revoked grant no longer allows its host', async (t) => {
  t.throws(() => readTarget('https://api.example.com/', ['host.llm']), /not a granted host/);
});
