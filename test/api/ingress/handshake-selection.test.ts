/** Which webhook requests are handshakes. */
import t from 'tap';
import { HANDSHAKE_MAX_BYTES, isHandshake } from '../../../api/ingress/handshake-selection.ts';

const isSelected = (jsonType: string, body: string, method = 'POST'): boolean =>
  isHandshake({ handshake: { jsonType } }, { method, headers: [], body: Buffer.from(body) });

t.test('a POST whose JSON has the declared type is a handshake, however the vendor escapes the type', (t) => {
  t.ok(isSelected('url_verification', '{"challenge":"q","type":"url_verification"}'));
  t.ok(isSelected('webhook/verify', '{"type":"webhook/verify"}'));
  t.ok(isSelected('webhook/verify', '{"type":"webhook\\/verify"}'), 'as PHP writes it');
  t.ok(isSelected('prüfung', '{"type":"pr\\u00fcfung"}'), 'as Python writes it');
  t.ok(isSelected('a+b', '{"type":"a\\u002Bb"}'), 'as .NET writes it');
  t.end();
});

t.test('other requests are no handshakes', (t) => {
  t.notOk(isSelected('url_verification', '{"type":"message"}'));
  t.notOk(isSelected('webhook/verify', '{"type":"message","text":"webhook/verify"}'));
  t.notOk(isSelected('webhook/verify', '"webhook/verify"'));
  t.notOk(isSelected('webhook/verify', '{"type":"webhook/verify"'));
  t.notOk(isSelected('webhook/verify', '{"type":"webhook/verify"}', 'PUT'));
  t.notOk(isSelected('a', `{"type":"a","rest":"${'x'.repeat(HANDSHAKE_MAX_BYTES)}"}`));
  t.notOk(isHandshake({ handshake: null }, { method: 'GET', headers: [], body: Buffer.alloc(0) }));
  t.end();
});
