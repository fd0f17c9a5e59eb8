/** Specification: authentication, events, errors, limits and versioning. */
import { Account } from '../account.ts';
import { requireBodyLimit } from '../announced-body.ts';
import { ensure, expect, holding, isText } from '../expect.ts';
import { fileList, packageOf, zipPackage } from '../packages.ts';
import { type Chapter, refusalRow, row, unchecked } from '../row.ts';
import type { Run } from '../run.ts';
import { followUpdates, pauseAndUninstall, publishAndDelist } from './call-sequences.ts';

const UPLOAD_MAX_BYTES = 256 * 1024 * 1024;

const openAccount = (run: Run, token: string) => new Account(run.addresses, token);
const findEvent = async (run: Run, type: string, sessionId: string) =>
  (
    await (
      await run.kit()
    ).watch.find(type, ({ message, data }) => message === `event ${type}` && data.data.sessionId === sessionId)
  ).data;

export const rules: Chapter = {
  title: 'Specification: authentication, events, errors, limits, versioning',
  rows: [
    row('Every request carries the header Authorization: Bearer.', async (run) => {
      for (const path of ['/plugins', '/marketplace', '/installations', '/plugin-logs?installationId=x', '/me'])
        expect(await openAccount(run, '').get(path), { status: 401, body: { code: 'unauthenticated' } }, path);
    }),
    row('A token that is not one is refused.', async (run) => {
      for (const token of ['x', 'a.b.c', `${run.own.token}x`])
        expect(await openAccount(run, token).get('/plugins'), { status: 401, body: { code: 'unauthenticated' } });
    }),
    row('The same tokens sign in to the session API.', async (run) => {
      expect((await run.own.session('GET', '/sessions')).status, 200);
      expect(await openAccount(run, 'x').session('GET', '/sessions'), {
        status: 401,
        body: { code: 'unauthenticated' },
      });
    }),
    row('Every request acts as that user and on that user’s account.', async (run) => {
      const [own, other] = [await run.own.need(run.own.get('/me')), await run.other.need(run.other.get('/me'))];
      ensure(own.id !== other.id, 'both tokens act as one account: give the token of another one');
    }),
    row(
      'A plugin can be read, changed, listed or deleted through the authoring endpoints by its owner only.',
      async (run) => {
        const [{ id }, { other }] = [await run.plain(), run];
        // Awaited together: if the deployment goes away, each of them fails, and one that is not awaited would end the run.
        const answers = await Promise.all([
          other.get(`/plugins/${id}`),
          other.publishFiles(id, run.unusedSemVer(), fileList(packageOf())),
          other.publishZip(id, run.unusedSemVer(), zipPackage(packageOf())),
          other.post(`/plugins/${id}/draft`, { files: fileList(packageOf()) }),
          other.post(`/plugins/${id}/listing`),
          other.delete(`/plugins/${id}/listing`),
          other.delete(`/plugins/${id}`),
        ]);
        for (const answer of answers) expect(answer, { status: 403, body: { code: 'not_owner' } });
      },
    ),
    row('Draft installs are for the owner’s own account only.', async (run) => {
      const { slug } = await run.plain();
      expect((await run.other.post('/installations', { slug, versionPolicy: 'Draft' })).body, {
        code: 'draft_owner_only',
      });
    }),
    row('Secrets given to configure reach the plugin.', async (run) =>
      expect(await run.tool('secret', { value: 'conform-secret-value' }), { same: true }),
    ),
    row('Delivery is at-least-once: a failed attempt is repeated with the same event id.', async (run) => {
      const { watch } = await run.kit();
      const session = await run.newSession('flaky');
      const first = await findEvent(run, 'sessionStarted', session);
      const second = await watch.find('the second attempt', ({ data }) => data?.id === first.id && data.attempt === 2);
      expect([first.attempt, second.data.id], [1, first.id]);
    }),
    row('pluginInstalled: an installation is created, and again on rerun-setup.', async (run) => {
      const { installationId, watch } = await run.kit();
      const { body } = await run.own.post(`/installations/${installationId}/rerun-setup`);
      expect(await watch.find('pluginInstalled', ({ data }) => data?.id === body.eventId), {
        source: 'events.pluginInstalled',
      });
    }),
    row('pluginUninstalled: an installation is deleted.', async (run) => {
      expect((await pauseAndUninstall(run)).event.data, { type: 'pluginUninstalled' });
    }),
    row('session started: a session starts.', async (run) => {
      const session = await run.newSession('starter');
      expect(await findEvent(run, 'sessionStarted', session), {
        data: { sessionId: session, agentId: 'starter', channelId: null },
      });
    }),
    row('session cleared: a session is cleared.', async (run) => {
      const session = await run.newSession('clearer');
      await run.kit();
      const messages = [
        { role: 'user', text: 'a' },
        { role: 'assistant', text: 'b' },
      ];
      await run.own.need(run.own.session('POST', `/sessions/${session}/messages`, { messages }));
      expect((await run.own.session('POST', `/sessions/${session}/clear`, {})).status, 200);
      expect(await findEvent(run, 'sessionCleared', session), { data: { agentId: 'clearer', messageCount: 2 } });
    }),
    row('session deleted: a session is deleted.', async (run) => {
      const session = await run.newSession('deleter');
      await run.kit();
      expect((await run.own.session('DELETE', `/sessions/${session}`)).status, 204);
      expect(await findEvent(run, 'sessionDeleted', session), { data: { sessionId: session, agentId: 'deleter' } });
    }),
    row('updated: an installed plugin is updated.', async (run) => {
      const { watch, ids } = await followUpdates(run);
      const line = await watch.find(
        'pluginUpdated',
        ({ data }) => data?.type === 'pluginUpdated' && data.data.toSemVer === '1.1.0',
      );
      expect(line.data.data, { fromVersionId: ids.first, toVersionId: ids.second, fromSemVer: '1.0.0' });
    }),
    row('Inbound webhook requests for channel plugins are queued on arrival.', async (run) => {
      const { channel, queuedStatus, delivered } = await pauseAndUninstall(run);
      expect(channel, { id: isText, webhookUrl: /\/webhook\/plugin\/[\w-]+$/ });
      expect(queuedStatus, 200, 'the status while the plugin is paused');
      expect(delivered.body, { attempts: 1 }, 'the delivery after the plugin is resumed');
    }),
    unchecked(
      'Messages sent during a deployment of the service are delivered afterwards, not rejected.',
      'needs the deployment to be replaced meanwhile',
    ),
    row('201: POST /plugins and POST versions/zip created or published.', async (run) => {
      const { created, zip } = await publishAndDelist(run);
      expect([created.status, zip.status], [201, 201]);
    }),
    row('A validation error of a zip: the message says what is wrong and where.', async (run) => {
      const { id } = await run.plain();
      const broken = packageOf('const a = ;\n');
      const answer = await run.own.publishZip(id, run.unusedSemVer(), zipPackage(broken));
      expect(answer, { status: 422, body: { errors: [{ path: 'index.ts', line: 1, message: isText }] } });
    }),
    row('409: the version already exists.', async (run) => {
      const { zipAgain } = await publishAndDelist(run);
      expect(zipAgain, { status: 409, body: { code: 'version_exists' } });
    }),
    refusalRow('503: the bundler is busy; the client retries shortly.', 'bundler_busy', 503),
    row('Creating a plugin with a slug already in use is rejected.', async (run) => {
      const { slug } = await run.plain();
      expect((await run.other.post('/plugins', { slug, displayName: 'Taken' })).body, { code: 'slug_taken' });
    }),
    row('Listing without a published version is rejected.', async (run) => {
      const { listedEmpty } = await publishAndDelist(run);
      expect(listedEmpty, { status: 409, body: { code: 'no_published_version' } });
    }),
    row('Yanking the last version is rejected.', async (run) => {
      expect((await publishAndDelist(run)).yankLast.status, 409);
    }),
    row('Deleting a plugin that still has a published version is rejected.', async (run) => {
      expect((await publishAndDelist(run)).deletePublished.status, 409);
    }),
    row('Zip upload size: up to 256 MB.', async (run) => {
      const { id } = await run.plain();
      const url = `${run.addresses.rest}/plugins/${id}/versions/zip`;
      const headers = { authorization: `Bearer ${run.own.token}`, 'content-type': 'multipart/form-data; boundary=x' };
      await requireBodyLimit(url, UPLOAD_MAX_BYTES, headers, { over: 1_000_000 });
    }),
    unchecked('Log retention: 24 hours.', 'takes a day'),
    row('File-list publish: text files only.', async (run) => {
      const { id } = await run.plain();
      const files = [...fileList(packageOf()), { path: 'b.txt', contentText: '\udc00' }];
      expect((await run.own.publishFiles(id, run.unusedSemVer(), files)).body, { code: 'text_files_only' });
    }),
    row('Capabilities: a plugin gets only what it declares.', async (run) =>
      expect(await run.tool('types', { of: 'host', names: ['llm', 'agents.create', 'ssh.run'] }), {
        llm: 'undefined',
        'agents.create': 'function',
        'ssh.run': 'undefined',
      }),
    ),
    row('Latest follows the newest version.', async (run) => {
      const { moved, latest } = await followUpdates(run);
      expect([moved.body.currentSemVer, latest.body.currentSemVer], ['1.1.0', '1.5.0']);
    }),
    row('Pinned stays on pinnedVersionId.', async (run) => {
      const { stillPinned, pinnedId } = await followUpdates(run);
      expect(stillPinned.body, { currentVersionId: pinnedId, currentSemVer: '1.1.0' });
    }),
    row('An update that asks for more access is applied only after accept-update with its versionId.', async (run) => {
      const { pending, ids } = await followUpdates(run);
      expect(pending.body, { currentSemVer: '1.1.0', pendingUpdate: { versionId: ids.third, added: ['host.llm'] } });
    }),
    row('Versions are listed with status and sourceSha256 in the plugin detail.', async (run) => {
      const { second } = await publishAndDelist(run);
      expect(second.body.versions, holding({ status: 'published', sourceSha256: isText }));
    }),
    row('Paths carry no version segment.', async (run) => {
      const { paths } = await run.document('rest');
      const versioned = Object.keys(paths).filter((path) => /^\/v\d/.test(path));
      ensure(versioned.length === 0, versioned.join(', '));
    }),
  ],
};
