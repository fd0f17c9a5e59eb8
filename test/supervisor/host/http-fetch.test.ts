/** The results of `host.http.fetch` in a plugin. */
import { createServer } from 'node:https';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import t from 'tap';
import { listenOn, serve } from '../../fixtures/listening-server.ts';
import { whyMissing } from '../../runner/programs.ts';
import { makeCertificate, pluginWith } from './http-target.ts';

t.test('fetch sends method, headers and body, and returns status, headers and body', async (t) => {
  const server = await serve(t, async (request, response) => {
    const body = (await request.toArray()).join('');
    response.writeHead(201, { 'content-type': 'application/json', 'x-two': ['a', 'b'], 'keep-alive': 'timeout=9' });
    response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers, body }));
  });
  const plugin = await pluginWith(t, ['api.test']);
  plugin.dns.set('api.test', ['127.0.0.1']);
  plugin.allow(`api.test:${server.port}`);
  const answer = await plugin.fetch(`http://API.test.:${server.port}/a%20b?q=1#part`, {
    method: 'PUT',
    body: 'grüße',
    headers: { 'X-Key': 'k', Authorization: 'Bearer x' },
  });
  t.match(answer, { status: 201, headers: { 'x-two': 'a, b', 'content-type': 'application/json' } });
  t.notOk('keep-alive' in answer.headers);
  t.match(JSON.parse(answer.bodyText), {
    method: 'PUT',
    url: '/a%20b?q=1',
    body: 'grüße',
    headers: { host: `api.test:${server.port}`, 'x-key': 'k', authorization: 'Bearer x' },
  });
  t.equal(Buffer.from(answer.bodyBytes).toString(), answer.bodyText);
  const bytes = new Uint8Array([0, 255, 10]);
  const sent = await plugin.fetch(`http://api.test:${server.port}/`, { method: 'POST', body: bytes });
  t.equal(JSON.parse(sent.bodyText).headers['content-length'], '3');
});

t.test('cookies of a response are joined for host.http.fetch, and stay apart for fetch', async (t) => {
  const cookies = ['a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT', 'key=value-of-the-key'];
  const server = await serve(t, (request, response) => {
    if (request.url !== '/none') response.setHeader('set-cookie', request.url === '/one' ? 'b=2' : cookies);
    response.end();
  });
  const plugin = await pluginWith(t, ['api.test'], {
    secrets: { key: 'value-of-the-key' },
    uses: { key: ['http:api.test'] },
  });
  plugin.dns.set('api.test', ['127.0.0.1']);
  plugin.allow(`api.test:${server.port}`);
  const at = (path: string) => `http://api.test:${server.port}/${path}`;
  const seen = [cookies[0], 'key=[secret key]'];
  const joined = { 'set-cookie': seen.join(', ') };
  t.match((await plugin.fetch(at(''))).headers, joined);
  t.match(await plugin.open('1', at('')), { headers: joined, setCookies: seen });
  t.match(await plugin.open('2', at('one')), { setCookies: ['b=2'] });
  t.match(await plugin.open('3', at('none')), { setCookies: [] });
  const headers = { 'x-key': plugin.handleOf('key') };
  t.match(await plugin.open('4', at(''), { headers }), { setCookies: seen }, 'also to a request with the handle');
});

t.test('fetch decodes response bodies; a binary body has bytes and no text', async (t) => {
  const coders = { gzip: gzipSync, deflate: deflateSync };
  const server = await serve(t, (request, response) => {
    const coding = request.url?.slice(1) ?? '';
    if (coding === 'image') return void response.writeHead(200, { 'content-type': 'image/png' }).end('\x89PNG');
    if (coding === 'latin') {
      response.writeHead(200, { 'content-type': 'text/plain; charset=iso-8859-1' });
      return void response.end(Buffer.from([0xfc]));
    }
    if (coding === 'br')
      return void response.writeHead(200, { 'content-encoding': 'br' }).end(brotliCompressSync('hello'));
    const code = coders[coding as keyof typeof coders];
    response.writeHead(200, { 'content-type': 'text/plain', 'content-encoding': coding });
    response.end(code ? code('hello') : 'hello');
  });
  const plugin = await pluginWith(t, ['api.test']);
  plugin.dns.set('api.test', ['127.0.0.1']);
  plugin.allow(`api.test:${server.port}`);
  const at = (path: string) => plugin.fetch(`http://api.test:${server.port}/${path}`);
  for (const coding of Object.keys(coders)) {
    const answer = await at(coding);
    t.equal(answer.bodyText, 'hello', coding);
    t.notOk('content-encoding' in answer.headers || 'content-length' in answer.headers);
  }
  t.match(await at('image'), { bodyText: '', bodyBytes: { byteLength: 5 } });
  t.equal((await at('latin')).bodyText, 'ü');
  for (const coding of ['br', 'rot13'])
    await t.rejects(at(coding), {
      name: 'HostError',
      message: 'the response has a content-encoding that is not understood; gzip and deflate are',
    });
});

t.test('an empty body with a content-encoding is an empty body, a cut one is refused', async (t) => {
  const server = await serve(t, (request, response) => {
    const [, coding = '', how] = request.url?.split('/') ?? [];
    response.writeHead(201, { 'content-encoding': coding, ...(how === 'sized' ? { 'content-length': '0' } : {}) });
    if (how !== 'cut') return void response.end();
    const body = coding === 'gzip' ? gzipSync('hello') : deflateSync('hello');
    response.end(body.subarray(0, -1));
  });
  const plugin = await pluginWith(t, ['api.test']);
  plugin.dns.set('api.test', ['127.0.0.1']);
  plugin.allow(`api.test:${server.port}`);
  for (const coding of ['gzip', 'deflate']) {
    const url = `http://api.test:${server.port}/${coding}`;
    for (const how of ['sized', 'chunked'])
      t.match(await plugin.fetch(`${url}/${how}`), { status: 201, bodyText: '', bodyBytes: { byteLength: 0 } });
    await t.rejects(plugin.fetch(`${url}/cut`), { message: 'api.test sent an invalid response (Z_BUF_ERROR)' });
  }
});

t.test('fetch asks for no content-encoding that it does not decode', async (t) => {
  const server = await serve(t, (request, response) => response.end(request.headers['accept-encoding']));
  const plugin = await pluginWith(t, ['api.test']);
  plugin.dns.set('api.test', ['127.0.0.1']);
  plugin.allow(`api.test:${server.port}`);
  const asks = async (headers: Record<string, string> = {}) =>
    (await plugin.fetch(`http://api.test:${server.port}/`, { headers })).bodyText;
  t.equal(await asks(), 'gzip');
  t.equal(await asks({ 'Accept-Encoding': 'br, GZIP;q=0.5, deflate, zstd, *' }), 'GZIP;q=0.5, deflate');
  t.equal(await asks({ 'accept-encoding': 'br' }), 'identity');
  t.equal(
    await asks({ 'accept-encoding': `${'br,'.repeat(31)}gzip,deflate` }),
    'gzip',
    'of many, the first 32 are read',
  );
});

t.test('fetch follows redirects, sends credentials to the first host only, and turns a POST into a GET', async (t) => {
  const other = await serve(t, (request, response) => response.end(JSON.stringify(request.headers)));
  const server = await serve(t, (request, response) => {
    if (request.url === '/here') return void response.end(`${request.method} ${request.headers.authorization}`);
    const location = request.url === '/away' ? `http://other.test:${other.port}/` : '/here';
    response.writeHead(302, { location }).end('not read');
  });
  const plugin = await pluginWith(t, ['api.test', 'other.test']);
  for (const [name, port] of [
    ['api.test', server.port],
    ['other.test', other.port],
  ] as const) {
    plugin.dns.set(name, ['127.0.0.1']);
    plugin.allow(`${name}:${port}`);
  }
  const init = { headers: { authorization: 'a', cookie: 'c', 'x-api-key': 'k', accept: 'text/x' } };
  const same = await plugin.fetch(`http://api.test:${server.port}/same`, { ...init, method: 'POST', body: 'x' });
  t.equal(same.bodyText, 'GET a');
  const away = JSON.parse((await plugin.fetch(`http://api.test:${server.port}/away`, init)).bodyText);
  t.equal(away.accept, 'text/x');
  t.notOk('authorization' in away || 'cookie' in away || 'x-api-key' in away);
});

t.test('https: the certificate must match the host name', { skip: whyMissing('openssl') }, async (t) => {
  const { key, cert } = await makeCertificate(t, 'ec');
  const secure = createServer({ key, cert }, (_request, response) => response.end('secure'));
  const server = await listenOn(t, secure);
  const open = async (certificates?: string) => {
    const plugin = await pluginWith(t, ['*.test'], certificates === undefined ? {} : { certificates });
    for (const name of ['api.test', 'other.test']) {
      plugin.dns.set(name, ['127.0.0.1']);
      plugin.allow(`${name}:${server.port}`);
    }
    return plugin;
  };
  const trusting = await open(cert);
  t.equal((await trusting.fetch(`https://api.test:${server.port}/`)).bodyText, 'secure');
  await t.rejects(trusting.fetch(`https://other.test:${server.port}/`), { message: /ERR_TLS_CERT_ALTNAME_INVALID/ });
  await t.rejects((await open()).fetch(`https://api.test:${server.port}/`), { message: /DEPTH_ZERO_SELF_SIGNED_CERT/ });
});
