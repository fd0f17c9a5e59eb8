/** Contract: errors. */
import type { Answer } from '../account.ts';
import { Account, readPages } from '../account.ts';
import { ensure, expect, isText } from '../expect.ts';
import { fileList, packageOf } from '../packages.ts';
import { type Chapter, refusalRow, row, unchecked } from '../row.ts';
import type { Run } from '../run.ts';
import { followDraft, followUpdates, publishAndDelist } from './call-sequences.ts';

/** The maximum of `limit`. */
const LIST_MAX = 1_000;
/** Pages in which an account with many plugins is read. */
const PAGES = 100;

/** The schema of every problem. */
function expectProblem(answer: Answer, status: number, code: string): void {
  expect(answer, { status, body: { status, code, type: isText, title: isText, detail: isText, requestId: isText } });
  expect(answer.headers.get('content-type'), /^application\/problem\+json/, 'the content type');
  expect(answer.headers.get('x-request-id'), answer.body.requestId, 'x-request-id');
}
const json = { 'content-type': 'application/json' };
const publish = async (run: Run, semVer: string) => {
  const { id } = await run.plain();
  return run.own.publishFiles(id, semVer, fileList(packageOf()));
};
const invalidSemVer = (semVer: string) =>
  row(
    `semVer: “${semVer.slice(0, 20)}” is not strict SemVer 2.0 text of at most 100 characters without v, spaces and build metadata.`,
    async (run) => expect(await publish(run, semVer), { status: 422, body: { code: 'invalid_package' } }),
  );

export const errors: Chapter = {
  title: 'Contract: errors',
  rows: [
    row('Errors are application/problem+json with type, title, status, code, detail and requestId.', async ({ own }) =>
      expectProblem(await own.get('/plugins/none'), 404, 'not_found'),
    ),
    row('Also for 404: an unknown address.', async ({ own }) =>
      expectProblem(await own.get('/nothing/here'), 404, 'not_found'),
    ),
    row('Also for 404: an address with a slash at its end, on both ports.', async ({ own }) => {
      expectProblem(await own.get('/me/'), 404, 'not_found');
      expectProblem(await own.session('GET', '/docs/'), 404, 'not_found');
    }),
    row('Also for 405: a method that an address does not take.', async ({ own }) =>
      expectProblem(await own.delete('/plugins'), 405, 'method_not_allowed'),
    ),
    row('Also for 413: a body over its cap.', async ({ own }) =>
      expectProblem(await own.post('/plugins', { slug: 'x'.repeat(1_200_000) }), 413, 'too_large'),
    ),
    row('Also for 415: a wrong content type.', async ({ own }) =>
      expectProblem(await own.post('/plugins', undefined, { raw: 'x' }), 415, 'unsupported_media_type'),
    ),
    row('The session API answers problems in the same form.', async ({ own }) => {
      expectProblem(await own.session('GET', '/sessions/none'), 404, 'not_found');
      expectProblem(await own.session('POST', '/sessions', {}), 400, 'bad_request');
      expectProblem(await own.session('GET', '/nothing'), 404, 'not_found');
    }),
    row('Malformed JSON: 400 bad_request.', async ({ own }) => {
      for (const raw of ['{"slug":', "{'slug': 1}", '{"a":1}}', 'NaN'])
        expectProblem(await own.post('/plugins', undefined, { raw, headers: json }), 400, 'bad_request');
    }),
    row('A body that is not UTF-8: 400 bad_request, on both ports.', async ({ own }) => {
      const raw = Buffer.concat([Buffer.from('{"agentId":"'), Buffer.from([0xff]), Buffer.from('"}')]);
      expectProblem(await own.post('/plugins', undefined, { raw, headers: json }), 400, 'bad_request');
      expectProblem(await own.session('POST', '/sessions', undefined, { raw, headers: json }), 400, 'bad_request');
    }),
    row('A number that would become another one: 400 bad_request, on both ports.', async ({ own }) => {
      for (const number of ['9007199254740993', '-1e400']) {
        const raw = `{"agentId":${number}}`;
        const answers = [
          await own.post('/plugins', undefined, { raw, headers: json }),
          await own.session('POST', '/sessions', undefined, { raw, headers: json }),
        ];
        for (const answer of answers) {
          expectProblem(answer, 400, 'bad_request');
          expect(answer.body.detail, /holds the number/);
        }
      }
    }),
    row('A bad query field: 400 bad_request.', async ({ own }) =>
      expectProblem(await own.get('/plugins?limit=0'), 400, 'bad_request'),
    ),
    row('A bad body field: 400 bad_request that names the field.', async ({ own }) => {
      const answer = await own.post('/plugins', { slug: 'Not A Slug', displayName: 'X' });
      expectProblem(answer, 400, 'bad_request');
      expect(answer.body.errors, [{ field: 'slug', message: isText }]);
    }),
    row('Unknown body fields are refused with the nearest name.', async (run) => {
      const { installationId } = await run.kit();
      const answer = await run.own.patch(`/installations/${installationId}`, { policy: 'Pinned' });
      expectProblem(answer, 400, 'bad_request');
      expect(answer.body.detail, /versionPolicy/);
    }),
    row('Unknown body fields are refused with the nearest name by the session API.', async ({ own }) => {
      const answer = await own.session('POST', '/sessions', { agentId: 'a', agent: 'a' });
      expectProblem(answer, 400, 'bad_request');
      expect(answer.body.detail, /agentId/);
    }),
    row('Unknown query parameters are refused with the nearest name.', async (run) => {
      const { installationId } = await run.kit();
      const answer = await run.own.get(`/plugin-logs?installationId=${installationId}&levels[]=error`);
      expectProblem(answer, 400, 'bad_request');
      expect(answer.body.detail, /levels/);
    }),
    row('No token, or a bad one: 401 unauthenticated.', async (run) => {
      for (const token of ['', 'nonsense', `${run.own.token}x`])
        expectProblem(await new Account(run.addresses, token).get('/plugins'), 401, 'unauthenticated');
    }),
    unchecked('An expired token: 401 unauthenticated.', 'needs a token that has expired'),
    row('Another account’s listed plugin, changed by a non-owner: 403 not_owner.', async (run) => {
      const { id } = await run.plain();
      expectProblem(await run.other.delete(`/plugins/${id}`), 403, 'not_owner');
    }),
    row('An unknown id: 404 not_found.', async ({ own }) => {
      for (const path of ['/plugins/x', '/installations/x', '/marketplace/x-y-z', '/installations/%00'])
        expectProblem(await own.get(path), 404, 'not_found');
    }),
    row('Another account’s private thing: 404 not_found.', async (run) => {
      const { id, installationId } = await run.kit();
      for (const path of [
        `/plugins/${id}`,
        `/installations/${installationId}`,
        `/plugin-logs?installationId=${installationId}`,
      ])
        expectProblem(await run.other.get(path), 404, 'not_found');
    }),
    row('Another account’s session: 404 not_found.', async (run) =>
      expectProblem(await run.other.session('GET', `/sessions/${await run.session()}`), 404, 'not_found'),
    ),
    row('Slug in use: 409 slug_taken.', async (run) => {
      const { slug } = await run.plain();
      expectProblem(await run.own.post('/plugins', { slug, displayName: 'X' }), 409, 'slug_taken');
    }),
    row('semVer exists, by zip and file list: 409 version_exists.', async (run) => {
      const { zipAgain, filesAgain } = await publishAndDelist(run);
      for (const answer of [zipAgain, filesAgain]) expectProblem(answer, 409, 'version_exists');
    }),
    row('Yanked numbers count: a number is never reusable.', async (run) => {
      expectProblem((await publishAndDelist(run)).yankedNumber, 409, 'version_exists');
    }),
    row('Listing without a published version: 409 no_published_version.', async (run) => {
      expectProblem((await publishAndDelist(run)).listedEmpty, 409, 'no_published_version');
    }),
    row('Yank of the last version that is not yanked: 409 last_version.', async (run) => {
      expectProblem((await publishAndDelist(run)).yankLast, 409, 'last_version');
    }),
    row('Yanking a yanked version: 200, no change.', async (run) => {
      const { yankedAgain, yanked } = await publishAndDelist(run);
      expect(yankedAgain.status, 200);
      expect(yankedAgain.body.yankedAt ?? null, yanked.body.yankedAt ?? null, 'yankedAt');
    }),
    row('Delete of a plugin with a published version: 409 published_version_exists.', async (run) => {
      expectProblem((await publishAndDelist(run)).deletePublished, 409, 'published_version_exists');
    }),
    row('Second installation of one plugin by one account: 409 already_installed.', async (run) => {
      const { slug } = await run.kit();
      expectProblem(await run.own.post('/installations', { slug }), 409, 'already_installed');
    }),
    row('accept-update of a version that is not pending: 409 not_pending.', async (run) => {
      expectProblem((await followUpdates(run)).acceptWrong, 409, 'not_pending');
    }),
    row('Draft policy on another account’s plugin: 403 draft_owner_only.', async (run) => {
      const { slug } = await run.plain();
      expectProblem(await run.other.post('/installations', { slug, versionPolicy: 'Draft' }), 403, 'draft_owner_only');
    }),
    row('Draft policy without a saved draft: 409 no_draft.', async (run) => {
      expectProblem((await followDraft(run)).without, 409, 'no_draft');
    }),
    row('Pinned without pinnedVersionId: 422 invalid_pin.', async (run) => {
      expectProblem((await followUpdates(run)).pinMissing, 422, 'invalid_pin');
    }),
    row('Pinned with a foreign pinnedVersionId: 422 invalid_pin.', async (run) => {
      expectProblem((await followUpdates(run)).pinForeign, 422, 'invalid_pin');
    }),
    row('Pinned with a yanked pinnedVersionId: 422 invalid_pin.', async (run) => {
      expectProblem((await followUpdates(run)).pinYanked, 422, 'invalid_pin');
    }),
    row('A package that fails validation: 422 invalid_package; errors say file, line and column.', async (run) => {
      const { id } = await run.plain();
      const answer = await run.own.publishFiles(id, run.unusedSemVer(), fileList(packageOf('\n  const = 1;\n')));
      expectProblem(answer, 422, 'invalid_package');
      expect(answer.body.errors[0], { path: 'index.ts', line: 2, column: (value: unknown) => Number(value) > 0 });
    }),
    row('What is not text in a file list: 422 text_files_only.', async (run) => {
      const { id } = await run.plain();
      const files = [...fileList(packageOf()), { path: 'x.txt', contentText: 'a\0' }];
      expectProblem(await run.own.publishFiles(id, run.unusedSemVer(), files), 422, 'text_files_only');
    }),
    refusalRow('Bundler busy: 503 bundler_busy and Retry-After.', 'bundler_busy', 503),
    refusalRow('Rate limit: 429 rate_limited and Retry-After.', 'rate_limited', 429),
    unchecked('Database or queue away: 503 unavailable and Retry-After.', 'needs the database to go away'),
    row('POST that creates answers 201.', async (run) => {
      const { created, zip, files, installed } = await publishAndDelist(run);
      for (const answer of [created, zip, files, installed]) expect(answer.status, 201);
    }),
    row('201 carries Location.', async (run) => {
      const { created, installed } = await publishAndDelist(run);
      expect(created.headers.get('location'), new RegExp(`/plugins/${created.body.id}$`), 'Location');
      expect(installed.headers.get('location'), new RegExp(`/installations/${installed.body.id}$`), 'Location');
    }),
    row('Lists answer items and nextCursor.', async ({ own }) => {
      for (const path of ['/plugins', '/marketplace', '/installations', '/agents'])
        expect(await own.get(path), {
          status: 200,
          body: { items: Array.isArray, nextCursor: (value: unknown) => value !== undefined },
        });
    }),
    row('limit is 1000 at most.', async ({ own }) => {
      expect((await own.get('/plugins?limit=1000')).status, 200);
      expect((await own.get('/plugins?limit=1001')).status, 400);
    }),
    row('Lists that answer everything at once take limit and cursor, too.', async (run) => {
      await run.kit();
      const session = await run.session();
      const check = async (name: string, read: (query: string) => Promise<Answer>) => {
        const [whole, first] = [await run.own.need(read('')), await run.own.need(read('?limit=1'))];
        ensure(first.items.length <= 1, `${name}: a page of one has ${first.items.length}`);
        ensure((first.nextCursor !== null) === whole.items.length > 1, `${name}: nextCursor is ${first.nextCursor}`);
      };
      await check('usage', (query) => run.own.get(`/me/usage${query}`));
      for (const name of ['tools', 'commands', 'skills', 'providers', 'hooks', 'ssh-hosts'])
        await check(name, (query) => run.own.session('GET', `/sessions/${session}/${name}${query}`));
    }),
    row('Pages by cursor hold every item once.', async (run) => {
      await Promise.all([run.plain(), run.kit(), publishAndDelist(run)]);
      const listAll = async (): Promise<string[]> => {
        const { items } = await run.own.need(run.own.get(`/plugins?limit=${LIST_MAX}`));
        return items.map(({ id }: { id: string }) => id);
      };
      const before = await listAll();
      const limit = Math.max(2, Math.ceil(before.length / PAGES));
      const seen = new Set<string>();
      const readPage = (cursor: string) => run.own.get(`/plugins?limit=${limit}${cursor}`);
      for await (const items of readPages<{ id: string }>(readPage)) {
        ensure(items.length <= limit, `a page of ${items.length}`);
        for (const { id } of items) {
          ensure(!seen.has(id), `${id} came twice`);
          seen.add(id);
        }
        if (seen.size >= 2 * LIST_MAX) break;
      }
      // Other rows create and delete plugins meanwhile.
      const after = new Set(await listAll());
      const missing = before.filter((id) => after.has(id) && !seen.has(id));
      ensure(missing.length === 0, `no page has ${missing.join(', ')}`);
    }),
    ...['v1.0.0', '1.0', '1.0.0+build', ' 1.0.0', '01.0.0', `1.0.0-${'a'.repeat(100)}`].map(invalidSemVer),
    row('semVer: a pre-release is strict SemVer.', async (run) => {
      const { id } = await run.createPlugin('pre');
      expect((await run.own.publishFiles(id, '1.0.0-rc.1', fileList(packageOf()))).status, 201);
    }),
  ],
};
