/** `host.media`: content-addressed within an account, typed by its bytes, gone with who put it. */
import t from 'tap';
import { startBlobSweeper } from '../../../api/plugins/blob-sweeper.ts';
import { removeInstallation } from '../../../db/installations/installation-removal.ts';
import { MIB } from '../../../sdk/contract/limits.ts';
import { sniff } from '../../../supervisor/host/media.ts';
import { asCommand, runCommand, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

/** Does one call: `put` a text, `get` or `remove` an id. Answers the result or the refusal. */
const code = asCommand(`const { put, name, get, remove, zeros } = args;
  if (put !== undefined) return host.media.put(new TextEncoder().encode(put), name);
  if (zeros !== undefined) {
    const { id } = await host.media.put(new Uint8Array(zeros));
    return { length: (await host.media.get(id)).content.length };
  }
  if (get === undefined) return host.media.remove(remove).then(() => 'removed');
  const { content, mediaType } = await host.media.get(get);
  return { text: new TextDecoder().decode(content), mediaType };`);
const as =
  (fixture: SupervisorFixture, name: string, account = fixture.account) =>
  (args: object) =>
    runCommand(fixture, slugOf(fixture, name), args, { account });
const capabilities = ['host.media'];
/** A plugin of a test, each of which has an account of its own. */
const slugOf = ({ account }: SupervisorFixture, name: string): string => `${account}-${name}`;
const sharedFixture = await startSupervisorFixture(t, { mediaQuota: { bytes: 3 * MIB, files: 3 } });

t.test('equal bytes have one id within an account and another id in other accounts', async (t) => {
  const fixture = sharedFixture.withNewAccount();
  for (const name of ['one', 'two']) await fixture.install({ slug: slugOf(fixture, name), capabilities, code });
  await fixture.install({ slug: slugOf(fixture, 'bobs'), account: 'bob', capabilities, code });
  const [one, two, bobs] = [as(fixture, 'one'), as(fixture, 'two'), as(fixture, 'bobs', 'bob')];
  const first = await one({ put: 'hello', name: 'a.html' });
  t.match(first, { mediaType: 'text/plain', sizeBytes: 5, id: /^[0-9a-f]{64}$/ });
  t.same(await two({ put: 'hello' }), first);
  t.same(await two({ get: first.id }), { text: 'hello', mediaType: 'text/plain' });
  const theirs = await bobs({ put: 'hello' });
  t.not(theirs.id, first.id);
  for (const get of [first.id, 'x', 'a\0b']) t.match(await bobs({ get }), /no media file has this id/);
  t.match(await bobs({ remove: first.id }), /no media file has this id/);

  t.equal(await one({ remove: first.id }), 'removed');
  t.match(await one({ remove: first.id }), /of this installation/, 'what another holds is not removed');
  t.same(await one({ get: first.id }), { text: 'hello', mediaType: 'text/plain' });
  t.equal(await two({ remove: first.id }), 'removed');
  t.match(await two({ get: first.id }), /no media file has this id/);
});

t.test('runtimes get the bytes, and browsers only save them', async (t) => {
  const fixture = sharedFixture.withNewAccount();
  await fixture.install({ slug: slugOf(fixture, 'one'), capabilities, code });
  const { id } = await as(fixture, 'one')({ put: '<script>alert(1)</script>', name: 'é"\r\n.html' });
  const got = await fixture.call('GET', `/media/${id}`);
  t.match(got, { status: 200, body: '<script>alert(1)</script>' });
  t.match(got.headers, {
    'content-type': /^text\/plain/,
    'content-disposition': "attachment; filename*=UTF-8''%C3%A9%22%0D%0A.html",
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
  });
  t.equal((await fixture.call('GET', `/media/${id}`, undefined, 'bob')).status, 404);
  t.equal((await fixture.call('GET', '/media/a%00b')).status, 404);
});

t.test('types come from the bytes', async (t) => {
  const png = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex');
  t.equal(await sniff(png), 'image/png');
  t.equal(await sniff(Buffer.from('%PDF-1.7\n')), 'application/pdf');
  t.equal(await sniff(Buffer.from('plain ü')), 'text/plain');
  t.equal(await sniff(Buffer.from([0xff, 0xfe, 0, 0xd8])), 'application/octet-stream');
  t.equal(await sniff(Buffer.alloc(0)), 'text/plain');
});

t.test('media has a quota, and stored files can be read', async (t) => {
  const fixture = sharedFixture.withNewAccount();
  for (const name of ['one', 'two']) await fixture.install({ slug: slugOf(fixture, name), capabilities, code });
  const one = as(fixture, 'one');
  const two = as(fixture, 'two');
  t.match(await one({ zeros: 2 * MIB }), { length: 2 * MIB });
  t.match(await one({ zeros: 2 * MIB + 1 }), /2097152 bytes at most/);
  t.match(await two({ zeros: MIB + 1 }), /limit reached/);
  t.match(await two({ zeros: 2 * MIB }), { length: 2 * MIB }, 'the same bytes need no more room');
  const puts = await Promise.all(['a', 'b', 'c', 'd'].map((put) => one({ put })));
  t.equal(puts.filter((answer) => typeof answer === 'string' && answer.includes('limit reached')).length, 2);
});

t.test('media is removed with its installation, and its bytes with the next sweep', async (t) => {
  const fixture = sharedFixture.withNewAccount();
  const leaving = await fixture.install({ slug: slugOf(fixture, 'one'), capabilities, code });
  await fixture.install({ slug: slugOf(fixture, 'two'), capabilities, code });
  const [alone, shared] = [await as(fixture, 'one')({ put: 'alone' }), await as(fixture, 'one')({ put: 'shared' })];
  await as(fixture, 'two')({ put: 'shared' });
  const upkeep = startBlobSweeper({ pool: fixture.pool, blobs: fixture.blobs, onError: t.fail }, -60_000);
  t.teardown(() => upkeep.close());
  // Files that the other tests left.
  await upkeep.sweep();
  t.equal(await upkeep.sweep(), 0, 'all of it is used');
  await fixture.pool.query(`UPDATE installations SET status = 'uninstalling' WHERE id = $1`, [leaving.installationId]);
  await fixture.supervisor.fleet.retire(leaving.installationId);
  await removeInstallation(fixture.pool, fixture.supervisor.queues, leaving.installationId);
  t.match(await as(fixture, 'two')({ get: alone.id }), /no media file has this id/);
  t.match(await as(fixture, 'two')({ get: shared.id }), { text: 'shared' });
  t.equal(await upkeep.sweep(), 1);
  t.match(await as(fixture, 'two')({ get: shared.id }), { text: 'shared' });
});
