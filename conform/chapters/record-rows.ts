/** Contract: resources. */
import { ensure, expect, holding, isBoolean, isHash, isList, isNumber, isText, isTime, oneOf } from '../expect.ts';
import { readUntil } from '../log-watch.ts';
import { fileList, hashSource, packageOf } from '../packages.ts';
import { type Chapter, row } from '../row.ts';
import type { Run } from '../run.ts';
import {
  followDraft,
  followUpdates,
  installGated,
  LAYERED,
  pauseAndUninstall,
  publishAndDelist,
  updateToBroken,
  updateToCrashing,
} from './call-sequences.ts';

/** How long a stream may take to show the lines of a row. Milliseconds. */
const STREAM_MS = 45_000;
const kitInstallation = async (run: Run) => {
  const { installationId } = await run.kit();
  return (await run.own.get(`/installations/${installationId}`)).body;
};

export const records: Chapter = {
  title: 'Contract: resources',
  rows: [
    row('Plugin: owner{id,name}, visibility, tier, deprecationMessage, createdAt, updatedAt.', async (run) => {
      const { second } = await publishAndDelist(run);
      expect(second.body, {
        owner: { id: isText, name: isText },
        visibility: oneOf('private', 'listed', 'delisted'),
        tier: oneOf('community', 'verified'),
        deprecationMessage: null,
        createdAt: isTime,
        updatedAt: isTime,
        draft: null,
      });
    }),
    row('Plugin: draft{sourceSha256, savedAt, discovered}.', async (run) => {
      const { detail } = await followDraft(run);
      expect(detail.body.draft, { sourceSha256: isHash, savedAt: isTime, discovered: { tools: [{ name: 'fresh' }] } });
    }),
    row('Plugin: draft in each answer about one plugin.', async (run) => {
      const slug = run.slug('with-draft');
      const created = await run.own.need(run.own.post('/plugins', { slug, displayName: 'X' }), 201);
      expect(created.draft, null);
      const files = fileList(packageOf());
      const saved = await run.own.need(run.own.post(`/plugins/${created.id}/draft`, { files }));
      expect(await run.own.patch(`/plugins/${created.id}`, { displayName: 'Y' }), {
        status: 200,
        body: { draft: { sourceSha256: saved.sourceSha256 } },
      });
    }),
    row('PATCH /plugins/{id} changes name and description of what has no version yet.', async (run) => {
      const { id } = await run.createPlugin('unnamed');
      expect(await run.own.patch(`/plugins/${id}`, { displayName: 'Named' }), {
        status: 200,
        body: { displayName: 'Named' },
      });
    }),
    row(
      'Version: status, createdAt, yankedAt, sizeBytes, bundleSha256, capabilities, addedCapabilities.',
      async (run) => {
        const { zip, yanked, afterYank } = await publishAndDelist(run);
        expect(zip.body, {
          createdAt: isTime,
          yankedAt: null,
          sizeBytes: isNumber,
          bundleSha256: isHash,
          capabilities: isList,
          addedCapabilities: isList,
        });
        expect(yanked.status, 200);
        expect(afterYank.body.versions, holding({ status: 'yanked', yankedAt: isTime }));
      },
    ),
    row('addedCapabilities: against the previous version.', async (run) => {
      const { files, zip } = await publishAndDelist(run);
      expect(files.body.addedCapabilities, [], '1.1.0');
      expect(zip.body.addedCapabilities, zip.body.capabilities, '1.0.0');
    }),
    row('sourceSha256: SHA-256 over the sorted lines of path, NUL, SHA-256 of the bytes.', async (run) => {
      const { zip } = await publishAndDelist(run);
      expect(zip.body.sourceSha256, hashSource(LAYERED));
    }),
    row('The same tree hashes the same by zip or by file list, wrapper folder removed.', async (run) => {
      const { zip, files } = await publishAndDelist(run);
      expect(files.body.sourceSha256, zip.body.sourceSha256);
    }),
    row('Latest: a pre-release only where no stable one exists.', async (run) => {
      const { afterPreRelease } = await followUpdates(run);
      expect(afterPreRelease.body, { currentSemVer: '1.5.0', pendingUpdate: null });
    }),
    row('A yank moves followers of that version to the new Latest.', async (run) => {
      expect((await followUpdates(run)).afterYank.body, { currentSemVer: '1.4.0' });
    }),
    row('Pinned ones keep running a yanked version, with a notice in statusReason.', async (run) => {
      const { pinnedYanked } = await followUpdates(run);
      expect(pinnedYanked.body, { currentSemVer: '1.1.0', status: 'ready', statusReason: /yanked|withdrawn/i });
    }),
    row(
      'Installation: pluginId, slug, displayName, currentVersionId, currentSemVer, grantedCapabilities.',
      async (run) => {
        const { id, slug, versionId } = await run.kit();
        expect(await kitInstallation(run), {
          pluginId: id,
          slug,
          displayName: isText,
          currentVersionId: versionId,
          currentSemVer: '1.0.0',
          grantedCapabilities: holding('host.storage'),
        });
      },
    ),
    row('Installation: pendingUpdate{versionId, semVer, added, removed}.', async (run) => {
      const { pending, ids } = await followUpdates(run);
      expect(pending.body.pendingUpdate, { versionId: ids.third, semVer: '1.2.0', added: ['host.llm'], removed: [] });
    }),
    row('Installation: secretNames.', async (run) => expect(await kitInstallation(run), { secretNames: ['apiKey'] })),
    row('Installation: status is needs_configuration while required configuration is missing.', async (run) => {
      const { installationId } = await installGated(run);
      const { body } = await run.own.get(`/installations/${installationId}`);
      expect(body, { status: 'needs_configuration', statusReason: isText });
    }),
    row('Installation: status is paused after pause, and ready after resume.', async (run) => {
      const { paused, resumed } = await pauseAndUninstall(run);
      expect([paused.body.status, resumed.body.status], ['paused', 'ready']);
    }),
    row('Installation: runtime{state, restarts, lastExit, startedAt, rssBytes}.', async (run) => {
      await run.tool('answer', { kind: 'text' });
      const states = oneOf('stopped', 'starting', 'running', 'draining', 'backoff', 'failed');
      const { runtime } = await kitInstallation(run);
      expect(runtime, { state: states, restarts: isNumber });
      for (const field of ['lastExit', 'startedAt', 'rssBytes']) ensure(field in runtime, `runtime has no ${field}`);
    }),
    row('Installation: channels[{id, name, webhookUrl, connectedAt}].', async (run) => {
      const { channel } = await pauseAndUninstall(run);
      expect(channel, { id: isText, name: 'inbox', webhookUrl: isText, connectedAt: isTime });
    }),
    row('Installation: hookOrder, required (default false), createdAt, updatedAt.', async (run) =>
      expect(await kitInstallation(run), {
        hookOrder: isNumber,
        required: false,
        createdAt: isTime,
        updatedAt: isTime,
      }),
    ),
    row('required is set by PATCH.', async (run) => {
      const { installationId } = await installGated(run);
      const path = `/installations/${installationId}`;
      expect(await run.own.patch(path, { required: true }), { status: 200, body: { required: true } });
      expect(await run.own.patch(path, { required: false }), { status: 200, body: { required: false } });
    }),
    row('On a new Latest, an installation whose grants cover it moves by itself.', async (run) => {
      expect((await followUpdates(run)).moved.body, { currentSemVer: '1.1.0', pendingUpdate: null });
    }),
    row('pluginUpdated is sent to the new version.', async (run) => {
      const { watch } = await followUpdates(run);
      const line = await watch.find(
        'pluginUpdated',
        ({ data }) => data?.type === 'pluginUpdated' && data.data.toSemVer === '1.1.0',
      );
      expect(line, { semVer: '1.1.0' });
    }),
    row('Otherwise it keeps running the old version and shows pendingUpdate.', async (run) => {
      expect((await followUpdates(run)).pending.body, { currentSemVer: '1.1.0', status: 'ready' });
    }),
    row('accept-update names the exact version, so a later publish cannot ride on an old consent.', async (run) => {
      const { acceptOld, replaced, ids } = await followUpdates(run);
      expect(replaced.body.pendingUpdate, { versionId: ids.fourth });
      expect(acceptOld, { status: 409, body: { code: 'not_pending' } });
    }),
    row('Fewer capabilities apply silently and revoke.', async (run) => {
      const { shrunk } = await followUpdates(run);
      expect(shrunk.body.pendingUpdate, null);
      ensure(!shrunk.body.grantedCapabilities.includes('host.llm'), 'host.llm is still granted');
    }),
    row(
      'A version that fails to start is not the current one: the old one serves, and statusReason says why.',
      async (run) => {
        const { before, after, answer } = await updateToBroken(run);
        expect(after.body, { currentVersionId: before.currentVersionId, currentSemVer: '1.0.0', statusReason: isText });
        expect(answer.body, { isError: false, content: [{ text: 'old' }] });
      },
    ),
    row('A version that crash-loops in its first ten minutes rolls back by itself.', async (run) => {
      const { before, after } = await updateToCrashing(run);
      expect(after.currentVersionId, before.currentVersionId);
    }),
    row('Catalog entry: slug, displayName, description, tier, author{name, verified}, readme.', async (run) => {
      const { entry } = await publishAndDelist(run);
      expect(entry.body, {
        slug: isText,
        displayName: isText,
        description: isText,
        tier: isText,
        author: { name: isText, verified: isBoolean },
        readme: isText,
      });
    }),
    row('Catalog entry: latest{versionId, semVer, publishedAt}.', async (run) => {
      const { entry, files } = await publishAndDelist(run);
      expect(entry.body.latest, { versionId: files.body.id, semVer: '1.1.0', publishedAt: isTime });
    }),
    row('Catalog entry: reach[{capability, sentence, risk}].', async (run) => {
      const { slug } = await run.kit();
      const { body } = await run.own.get(`/marketplace/${slug}`);
      for (const reach of body.reach)
        expect(reach, { capability: isText, sentence: isText, risk: oneOf('low', 'medium', 'high') });
      expect(body.reach, holding({ capability: 'host.http:conform.invalid', sentence: /conform\.invalid/ }));
    }),
    row(
      'Catalog entry: discovered, installed, installationId, installCount, deprecationMessage, updatedAt.',
      async (run) => {
        const { slug, installationId } = await run.kit();
        expect((await run.own.get(`/marketplace/${slug}`)).body, {
          discovered: { tools: isList },
          installed: true,
          installationId,
          installCount: 1,
          deprecationMessage: null,
          updatedAt: isTime,
        });
      },
    ),
    row('GET /marketplace takes q, limit and cursor.', async (run) => {
      const { slug } = await run.plain();
      expect(await run.own.get(`/marketplace?q=${slug}&limit=1`), { status: 200, body: { items: [{ slug }] } });
      expect((await run.own.get('/marketplace?cursor=x')).status, oneOf(200, 400));
    }),
    row(
      'Log line: id, at, level, message, data, installationId, sessionId, source, invocationId, versionId, semVer, truncated.',
      async (run) => {
        const { installationId, versionId } = await run.kit();
        expect(await run.writeLog('fields'), {
          id: isText,
          at: isTime,
          level: 'info',
          data: { nested: { mark: 'fields' } },
          installationId,
          sessionId: await run.session(),
          source: 'tools.log',
          invocationId: isText,
          versionId,
          semVer: '1.0.0',
          truncated: false,
        });
      },
    ),
    row('Log lines are listed newest first.', async (run) => {
      const { installationId } = await run.kit();
      await run.writeLog('order', 'error');
      const { items } = (await run.own.get(`/plugin-logs?installationId=${installationId}&limit=50`)).body;
      const times = items.map(({ at }: { at: string }) => Date.parse(at));
      ensure(
        times.every((at: number, index: number) => index === 0 || at <= times[index - 1]),
        'the lines are not newest first',
      );
    }),
    row('source names the handler.', async (run) => {
      const { watch } = await run.kit();
      await run.newSession('sourced');
      const line = await watch.find('sessionStarted', ({ data }) => data?.data?.agentId === 'sourced');
      expect(line, { source: 'events.sessionStarted' });
    }),
    row('Host lifecycle (crash, restart, timeout, denial) is written to the same stream as system.', async (run) => {
      const { watch } = await run.kit();
      await run.hook('outboundMessage', { message: { id: 'm', text: 'throw' }, target: 't' });
      expect(
        await watch.find('system', ({ source, message }) => source === 'system' && message.includes('outboundMessage')),
        { level: 'error' },
      );
    }),
    row('Unknown level: 400.', async (run) => {
      const { installationId } = await run.kit();
      expect((await run.own.get(`/plugin-logs?installationId=${installationId}&levels=loud`)).body, {
        code: 'bad_request',
      });
    }),
    row(
      'GET /plugin-logs/stream is the same filter as server-sent events, resumable by Last-Event-ID.',
      async (run) => {
        const { installationId } = await run.kit();
        const line = await run.writeLog('resumed');
        const all = `/plugin-logs/stream?installationId=${installationId}`;
        const response = await run.own.openStream(all, AbortSignal.timeout(STREAM_MS), line.id);
        const text = await readUntil(response, 'debug resumed');
        ensure(
          !text.includes('info resumed') && text.includes('debug resumed'),
          `the stream began with ${text.slice(0, 200)}`,
        );
        const session = await run.newSession('streamed');
        await run.writeLog('elsewhere', 'error');
        await run.writeLog('filtered', 'error', session);
        const path = `/plugin-logs/stream?installationId=${installationId}&levels=error&sessionId=${session}`;
        const filtered = await run.own.openStream(path, AbortSignal.timeout(STREAM_MS), line.id);
        const lines = await readUntil(filtered, 'error filtered');
        ensure(lines.includes('error filtered'), 'the stream with levels and sessionId ended without the line');
        ensure(!lines.includes('elsewhere'), 'with sessionId, the stream has lines of other sessions');
        ensure(!/(?:info|debug|warn) filtered/.test(lines), 'with levels=error, the stream has other levels');
      },
    ),
    row('A draft answers 200 {sourceSha256, savedAt, discovered, warnings}.', async (run) => {
      const { saved } = await followDraft(run);
      expect(saved, {
        status: 200,
        body: {
          sourceSha256: hashSource(LAYERED),
          savedAt: isTime,
          discovered: { commands: isList },
          warnings: isList,
        },
      });
    }),
    row('Connecting a channel answers 201, replacing its address 200, both with the channel.', async (run) => {
      const { installationId } = await run.kit();
      const made = await run.own.post(`/installations/${installationId}/channels`, { name: 'replaced' });
      expect(made, { status: 201, body: { id: isText, webhookUrl: isText } });
      const replaced = await run.own.post(`/installations/${installationId}/channels/${made.body.id}/replace-address`);
      expect(replaced, { status: 200, body: { id: made.body.id } });
      ensure(replaced.body.webhookUrl !== made.body.webhookUrl, 'the address is the same');
    }),
    row('GET /me.', async ({ own }) =>
      expect(await own.get('/me'), { status: 200, body: { id: isText, name: isText } }),
    ),
    row('GET /me/usage.', async ({ own }) => expect((await own.get('/me/usage')).status, 200)),
    row('GET /installations/{id}/deliveries and POST …/deliveries/{deliveryId}/replay.', async (run) => {
      const { installationId } = await run.kit();
      const path = `/installations/${installationId}/deliveries`;
      expect(await run.own.get(path), { status: 200, body: { items: isList } });
      expect(await run.own.post(`${path}/none/replay`), { status: 404, body: { code: 'not_found' } });
    }),
    row('POST /installations/{id}/pause|resume.', async (run) => {
      const { paused, resumed } = await pauseAndUninstall(run);
      expect([paused.status, resumed.status], [200, 200]);
    }),
    row('A paused installation takes no calls.', async (run) => {
      const { pausedTools, plugin } = await pauseAndUninstall(run);
      ensure(
        !pausedTools.body.items.some(({ slug }: { slug: string }) => slug === plugin.slug),
        'its tools are still offered',
      );
    }),
    row('GET /installations/{id}/audit.', async (run) => {
      await run.host('storage.set', 'audited', 1);
      const { installationId } = await run.kit();
      await run.until('the audit entry', async () => {
        const { items } = (await run.own.get(`/installations/${installationId}/audit?limit=1000`)).body;
        return items.some((item: object) => JSON.stringify(item).includes('storage.set'));
      });
    }),
    row('GET /plugins/{id}/versions/{versionId}/files.', async (run) => {
      const { id, versionId } = await run.plain();
      expect((await run.own.get(`/plugins/${id}/versions/${versionId}/files`)).status, 200);
    }),
    row('OpenAPI 3.1 at /api/openapi.json, readable at /api/docs.', async (run) => {
      expect(await run.document('rest'), { openapi: /^3\.1/ });
      expect((await run.own.get('/docs')).headers.get('content-type'), /^text\/html/);
    }),
    row('The OpenAPI document declares every operation of the specification.', async (run) => {
      for (const operation of OPERATIONS) await run.requireOperation('rest', operation);
    }),
    row('statusReason is null where there is nothing to say.', async (run) =>
      expect(await kitInstallation(run), { statusReason: null, status: 'ready' }),
    ),
  ],
};

const OPERATIONS = [
  ...[
    'POST /plugins',
    'GET /plugins',
    'GET /plugins/{id}',
    'POST /plugins/{id}/versions/zip',
    'POST /plugins/{id}/versions',
  ],
  ...['POST /plugins/{id}/draft', 'POST /plugins/{id}/listing', 'DELETE /plugins/{id}/listing'],
  ...[
    'POST /plugins/{id}/versions/{versionId}/yank',
    'DELETE /plugins/{id}',
    'GET /marketplace',
    'GET /marketplace/{slug}',
  ],
  ...['POST /installations', 'GET /installations', 'GET /installations/{id}', 'POST /installations/{id}/configure'],
  ...['PATCH /installations/{id}', 'POST /installations/{id}/accept-update', 'POST /installations/{id}/rerun-setup'],
  ...['DELETE /installations/{id}', 'GET /plugin-logs'],
];
