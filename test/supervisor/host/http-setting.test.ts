/** `HTTP_ALLOW_PRIVATE`: what an operator may write, and what stops start-up. */
import t from 'tap';
import { readConfig } from '../../../supervisor/config.ts';

t.test('targets are a name and a port, separated by commas', async (t) => {
  const read = (text: string) => [...readConfig({ HTTP_ALLOW_PRIVATE: text }).HTTP_ALLOW_PRIVATE];
  t.same(read(''), [], 'none unless somebody says so');
  t.same(read('Wiki.Internal.Example:8080, b.example:443,'), ['wiki.internal.example:8080', 'b.example:443']);
});

t.test('anything else is refused by name', async (t) => {
  for (const text of ['*', 'wiki.example', '*.example:80', 'http://wiki.example:80', 'wiki.example:x', ' a b:80'])
    t.throws(() => readConfig({ HTTP_ALLOW_PRIVATE: text }), {
      name: 'SettingsError',
      message: 'HTTP_ALLOW_PRIVATE must be host:port, separated by commas.',
    });
});
