/** Skills of a session: listed, their text read, and every file beside it in the answer or by its link. */
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import t from 'tap';
import { MIB } from '../../../sdk/contract/limits.ts';
import { SKILL_FILE_BYTES } from '../../../supervisor/sessions/skill-files.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex');
const fixture = await startSupervisorFixture(t);
const kit = await fixture.install({
  slug: 'kit',
  code: 'middleware.systemPrompt = () => undefined;',
  files: {
    'skills/pdf/SKILL.md': '---\nname: pdf\ndescription: PDFs\n---\n\n# How\n---\ndo',
    'skills/pdf/extra.md': '---\na: b\n---\nno',
    'skills/pdf/scripts/run_.py': 'x',
    'skills/pdf-other/SKILL.md': '---\nname: pdf-other\ndescription: o\n---\nother',
    'secret.txt': 'not of a skill',
  },
  discovered: { skills: [{ name: 'pdf', description: 'PDFs' }] },
});
/** Bytes, as only a zip brings them. */
async function addFile(path: string, bytes: Buffer): Promise<void> {
  const { sha256 } = await fixture.blobs.put(bytes);
  await fixture.pool.query('INSERT INTO version_files (version_id, path, sha256, size_bytes) VALUES ($1, $2, $3, $4)', [
    ...[kit.versionId, path, sha256, bytes.byteLength],
  ]);
}
const large = Buffer.alloc(SKILL_FILE_BYTES + 1, 'ä');
await addFile('skills/pdf/logo.png', PNG);
await addFile('skills/pdf/große Tabelle.txt', large);
await addFile('skills/pdf/nul', Buffer.from('a\0b'));
const at = `/sessions/${await fixture.session()}/skills`;
const readFile = (path?: string) => fixture.call('POST', `${at}/kit__pdf`, path === undefined ? {} : { path });
const raw = async (url: string) =>
  fixture.app.inject({ url, headers: { authorization: `Bearer ${await fixture.issuer.issue('ann')}` } });

t.test('listed with their descriptions', async (t) => {
  const { items } = (await fixture.call('GET', at)).body;
  t.match(items, [
    { name: 'kit__pdf', description: 'PDFs', slug: 'kit', installationId: kit.installationId },
    { name: 'kit__pdf-other' },
  ]);
});

t.test('a skill’s text has no frontmatter, and its files are listed', async (t) => {
  const resources = [
    { path: 'extra.md', sizeBytes: 15 },
    { path: 'große Tabelle.txt', sizeBytes: SKILL_FILE_BYTES + 1 },
    { path: 'logo.png', sizeBytes: PNG.byteLength },
    { path: 'nul', sizeBytes: 3 },
    { path: 'scripts/run_.py', sizeBytes: 1 },
  ];
  const skill = (await fixture.call('GET', `${at}/kit__pdf`)).body;
  t.match(skill, { name: 'kit__pdf', text: '# How\n---\ndo' });
  t.same(skill.resources, resources);
  const { status, body } = await readFile();
  t.equal(status, 200);
  t.match(body, { name: 'kit__pdf', path: 'SKILL.md', encoding: 'utf8', mediaType: 'text/plain' });
  t.equal(body.content, '# How\n---\ndo');
  t.same(body.resources, resources);
});

t.test('files: text as it is, bytes as base64, large ones by their link', async (t) => {
  t.match((await readFile('extra.md')).body, { encoding: 'utf8', content: '---\na: b\n---\nno', resources: [] });
  t.match((await readFile('scripts/run_.py')).body, { encoding: 'utf8', content: 'x', sizeBytes: 1 });
  const image = { encoding: 'base64', content: PNG.toString('base64'), mediaType: 'image/png' };
  t.match((await readFile('logo.png')).body, image);
  t.match((await readFile('nul')).body, { encoding: 'base64', mediaType: 'application/octet-stream' });
  const { body } = await readFile('große Tabelle.txt');
  t.match(body, { encoding: null, content: null, sizeBytes: large.byteLength });
  const answer = await raw(body.url);
  t.equal(answer.statusCode, 200);
  t.ok(answer.rawPayload.equals(large), 'its exact bytes');
  t.match(answer.headers, {
    'content-type': 'application/octet-stream',
    'content-length': String(large.byteLength),
    'content-disposition': "attachment; filename*=UTF-8''gro%C3%9Fe%20Tabelle.txt",
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
  });
});

t.test('only files of the skill’s folder and account are readable', async (t) => {
  for (const path of [
    '../../secret.txt',
    '/secret.txt',
    'secret.txt',
    '../pdf-other/SKILL.md',
    'scripts',
    '.',
    'none',
  ]) {
    t.match(await readFile(path), { status: 404, body: { code: 'not_found' } }, path);
    t.equal((await raw(`${at}/kit__pdf/files?path=${encodeURIComponent(path)}`)).statusCode, 404, path);
  }
  for (const path of ['', 'a\0b', 'x'.repeat(1_025), 3]) {
    t.match(await readFile(path as string), { status: 400 });
  }
  t.equal((await raw(`${at}/kit__pdf/files`)).statusCode, 400);
  t.equal((await fixture.call('GET', `${at}/kit__none`)).status, 404);
  t.equal((await fixture.call('POST', `${at}/kit__none`, {})).status, 404);
  t.equal((await fixture.call('POST', `${at}/kit__pdf`, {}, 'eve')).status, 404, 'another account’s session');
  const eves = await fixture.session('eve');
  t.same((await fixture.call('GET', `/sessions/${eves}/skills`, undefined, 'eve')).body.items, []);
  t.equal((await fixture.call('POST', `/sessions/${eves}/skills/kit__pdf`, {}, 'eve')).status, 404);
});

t.test('large files are sent to a bounded number of clients at once, and small ones to all', async (t) => {
  /** What one account may take of the 32 places. */
  const share = 22;
  // More than the buffers of both sockets hold.
  await addFile('skills/pdf/huge', Buffer.alloc(16 * MIB));
  await fixture.app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = fixture.app.server.address() as AddressInfo;
  const agent = new Agent();
  t.teardown(() => agent.destroy());
  const headers = { authorization: `Bearer ${await fixture.issuer.issue('ann')}` };
  const open = async (path: string): Promise<IncomingMessage> => {
    const outgoing = request({ host: '127.0.0.1', port, path: `${at}/kit__pdf/files?path=${path}`, agent, headers });
    const [incoming] = (await once(outgoing.end(), 'response')) as [IncomingMessage];
    return incoming;
  };
  const unread: IncomingMessage[] = [];
  for (let count = 0; count < share; count += 1) {
    const incoming = await open('huge');
    t.equal(incoming.statusCode, 200);
    unread.push(incoming);
  }
  const refused = await open('huge');
  t.match(refused, { statusCode: 429, headers: { 'retry-after': '5' } });
  t.match(JSON.parse(String(await buffer(refused))), {
    detail: `This process is sending ${share} large files of skills, ${share} of them from this account. Retry after 5 s.`,
  });
  t.ok((await buffer(await open('logo.png'))).equals(PNG));
  unread.pop()?.destroy();
  let next = await open('huge');
  while (next.statusCode === 429) {
    await buffer(next);
    next = await open('huge');
  }
  t.equal((await buffer(next)).byteLength, 16 * MIB, 'a client that leaves frees its place');
});
