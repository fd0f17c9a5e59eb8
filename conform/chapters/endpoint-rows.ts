/** Specification: endpoints. */
import { readPages } from '../account.ts';
import { ensure, expect, holding, isBoolean, isHash, isList, isText } from '../expect.ts';
import type { LogLine } from '../log-watch.ts';
import { type Chapter, row } from '../row.ts';
import { followDraft, followUpdates, pauseAndUninstall, publishAndDelist } from './call-sequences.ts';

export const endpoints: Chapter = {
  title: 'Specification: endpoints',
  rows: [
    row('The address of the console answers clients that are no browser.', async ({ addresses }) => {
      for (const headers of [{}, { accept: 'application/json' }]) {
        const answer = await fetch(new URL('./', addresses.rest), { headers });
        ensure(answer.status === 200, `the address answered ${answer.status}: ${await answer.text()}`);
        expect(answer.headers.get('content-type'), /^text\/html/, 'the content type');
      }
    }),
    row('POST /plugins: 201 with the plugin, including its id.', async (run) => {
      const { created } = await publishAndDelist(run);
      expect(created, { status: 201, body: { id: isText, displayName: /./ } });
    }),
    row('GET /plugins: the caller’s plugins.', async (run) => {
      const { id } = await run.plain();
      expect(await run.own.get('/plugins?limit=1000'), { status: 200, body: { items: holding({ id }) } });
    }),
    row('GET /plugins: no other account’s plugins.', async (run) => {
      const { id } = await run.plain();
      const { body } = await run.other.get('/plugins?limit=1000');
      ensure(!body.items.some((item: { id: string }) => item.id === id), 'another account’s plugin is listed');
    }),
    row('GET /plugins/{id}: every version with semVer, status and sourceSha256, and visibility.', async (run) => {
      const { second } = await publishAndDelist(run);
      expect(second.body, {
        visibility: 'private',
        versions: [
          { semVer: '1.1.0', status: 'published', sourceSha256: isHash },
          { semVer: '1.0.0', status: 'published', sourceSha256: isHash },
        ],
      });
    }),
    row('GET /plugins/{id}: query includeFiles is a boolean.', async (run) => {
      const { id } = await run.plain();
      expect(await run.own.get(`/plugins/${id}?includeFiles=perhaps`), { status: 400, body: { code: 'bad_request' } });
    }),
    row(
      'POST versions/zip: multipart/form-data with file and semVer; 201 with a summary of the version.',
      async (run) => {
        const { zip } = await publishAndDelist(run);
        expect(zip, { status: 201, body: { id: isText, semVer: '1.0.0', status: 'published' } });
      },
    ),
    row(
      'POST versions/zip: the summary says what was discovered: commands, skills, middleware, lifecycle, tools, providers.',
      async (run) => {
        const { zip } = await publishAndDelist(run);
        const parts = ['commands', 'skills', 'middleware', 'lifecycle', 'tools', 'providers'];
        expect(zip.body.discovered, Object.fromEntries(parts.map((part) => [part, isList])));
      },
    ),
    row('POST versions/zip: another content type is refused.', async (run) => {
      const { id } = await run.plain();
      expect(await run.own.post(`/plugins/${id}/versions/zip`, {}), {
        status: 415,
        body: { code: 'unsupported_media_type' },
      });
    }),
    row('POST versions: semVer and files; a published version.', async (run) => {
      const { files } = await publishAndDelist(run);
      expect(files, {
        status: 201,
        body: { semVer: '1.1.0', status: 'published', discovered: { middleware: isList } },
      });
    }),
    row('POST draft: builds and validates like a publish, without a version number.', async (run) => {
      const { saved, detail } = await followDraft(run);
      expect(saved, { status: 200, body: { sourceSha256: isHash, discovered: { commands: [{ name: 'hi' }] } } });
      expect(detail.body, { versions: [], draft: { sourceSha256: isHash } });
    }),
    row('POST draft: installs on the Draft policy follow it.', async (run) => {
      const { installed, moved } = await followDraft(run);
      expect(installed, { status: 201, body: { versionPolicy: 'Draft' } });
      ensure(
        moved.body.currentVersionId !== installed.body.currentVersionId,
        'the installation still runs the first draft',
      );
    }),
    row('POST listing: lists the plugin in the catalog.', async (run) => {
      const { listed } = await publishAndDelist(run);
      expect(listed, { status: 200, body: { visibility: 'listed' } });
    }),
    row('DELETE listing: takes deprecationMessage and removes the plugin from the catalog.', async (run) => {
      const { delisted } = await publishAndDelist(run);
      expect(delisted, { status: 200, body: { visibility: 'delisted', deprecationMessage: 'Use another one.' } });
    }),
    row('POST yank: yanks the version.', async (run) => {
      const { yanked } = await publishAndDelist(run);
      expect(yanked.status, 200);
    }),
    row('DELETE /plugins/{id}: deletes the plugin.', async (run) => {
      const { id } = await run.createPlugin('deleted');
      expect((await run.own.delete(`/plugins/${id}`)).status, 204);
      const { body } = await run.own.get('/plugins?limit=1000');
      ensure(!body.items.some((item: { id: string }) => item.id === id), 'the deleted plugin is still listed');
    }),
    row('GET /marketplace: every listed plugin.', async (run) => {
      const { slug } = await run.plain();
      expect((await run.other.get(`/marketplace?q=${slug}`)).body.items, holding({ slug, installed: false }));
    }),
    row('GET /marketplace: the caller’s own private plugins.', async (run) => {
      const { slug } = await run.kit();
      expect((await run.own.get(`/marketplace?q=${slug}`)).body.items, holding({ slug, visibility: 'private' }));
    }),
    row('GET /marketplace: no private plugins of others.', async (run) => {
      const { slug } = await run.kit();
      const { body } = await run.other.get(`/marketplace?q=${slug}`);
      ensure(
        !body.items.some((item: { slug: string }) => item.slug === slug),
        'another account’s private plugin is listed',
      );
      expect(await run.other.get(`/marketplace/${slug}`), { status: 404, body: { code: 'not_found' } });
    }),
    row('GET /marketplace: the owner’s delisted plugin stays in the owner’s own list.', async (run) => {
      const { stillOwn, created } = await publishAndDelist(run);
      expect(stillOwn.body.items, holding({ slug: created.body.slug, visibility: 'delisted' }));
    }),
    row('GET /marketplace/{slug}: readme, capabilities, what the plugin can reach, installed or not.', async (run) => {
      const { slug, installationId } = await run.kit();
      expect(await run.own.get(`/marketplace/${slug}`), {
        status: 200,
        body: { readme: /#/, capabilities: holding('host.storage'), reach: isList, installed: true, installationId },
      });
    }),
    row('POST /installations: slug and versionPolicy; the new installation.', async (run) => {
      const { installed } = await followUpdates(run);
      expect(installed, { status: 201, body: { id: isText, slug: run.slug('mover'), currentSemVer: '1.0.0' } });
    }),
    row('GET /installations: the caller’s installations.', async (run) => {
      const { installationId: id } = await run.kit();
      expect((await run.own.get('/installations?limit=1000')).body.items, holding({ id }));
    }),
    row('GET /installations/{id}: one installation.', async (run) => {
      const { installationId: id, slug } = await run.kit();
      expect(await run.own.get(`/installations/${id}`), { status: 200, body: { id, slug } });
    }),
    row('GET /installations/{id}: no other account’s installation.', async (run) => {
      const { installationId } = await run.kit();
      expect(await run.other.get(`/installations/${installationId}`), { status: 404, body: { code: 'not_found' } });
    }),
    row('POST configure: settings and secrets; secrets are never returned.', async (run) => {
      const { installationId } = await run.kit();
      const body = { settings: { units: 'imperial' }, secrets: { apiKey: 'conform-secret-value' } };
      const answer = await run.own.post(`/installations/${installationId}/configure`, body);
      expect(answer, { status: 200, body: { settings: { units: 'imperial' }, secretNames: ['apiKey'] } });
      ensure(!answer.text.includes('conform-secret-value'), 'the answer holds the secret');
    }),
    row('PATCH /installations/{id}: versionPolicy and pinnedVersionId update the policy.', async (run) => {
      const { pinned, followed } = await followUpdates(run);
      expect([pinned.body.versionPolicy, followed.body.versionPolicy], ['Pinned', 'Latest']);
    }),
    row('POST accept-update: accepts the version that versionId names.', async (run) => {
      const { accepted, grown, ids } = await followUpdates(run);
      expect([accepted.status, grown.body.currentVersionId], [200, ids.fourth]);
    }),
    row('POST rerun-setup: sends pluginInstalled again.', async (run) => {
      const { installationId } = await run.kit();
      expect(await run.own.post(`/installations/${installationId}/rerun-setup`), {
        status: 202,
        body: { eventId: isText },
      });
    }),
    row('DELETE /installations/{id}: uninstalls.', async (run) => {
      const { removed } = await pauseAndUninstall(run);
      expect(removed.status, 204);
    }),
    row('GET /plugin-logs: installationId selects the installation whose host.log lines are returned.', async (run) => {
      const { installationId } = await run.kit();
      await run.writeLog('paged');
      const { body } = await run.own.get(`/plugin-logs?installationId=${installationId}&limit=1000`);
      expect(body.items, holding({ message: 'info paged', installationId }));
      expect(await run.own.get('/plugin-logs'), { status: 400, body: { errors: [{ field: 'installationId' }] } });
    }),
    row('GET /plugin-logs: levels is repeatable and filters by level.', async (run) => {
      const { installationId } = await run.kit();
      await run.writeLog('levels', 'error');
      const { body } = await run.own.get(
        `/plugin-logs?installationId=${installationId}&levels=warn&levels=error&limit=1000`,
      );
      expect(body.items, holding({ message: 'warn levels' }));
      expect(body.items, holding({ message: 'error levels' }));
      ensure(
        body.items.every(({ level }: { level: string }) => level === 'warn' || level === 'error'),
        'other levels are there',
      );
    }),
    row('GET /plugin-logs: limit is the page size, cursor the paging cursor.', async (run) => {
      const { installationId } = await run.kit();
      const session = await run.newSession('pager');
      await run.writeLog('pages', 'error', session);
      const path = `/plugin-logs?installationId=${installationId}&sessionId=${session}`;
      const written = (items: readonly LogLine[]) =>
        items.map(({ message }) => message).filter((message) => /^(info|debug|warn|error) pages$/.test(message));
      const seen: LogLine[] = [];
      for await (const items of readPages<LogLine>((cursor) => run.own.get(`${path}&limit=2${cursor}`))) {
        ensure(items.length <= 2, `a page of ${items.length}`);
        seen.push(...items);
      }
      expect(written(seen), ['error pages', 'warn pages', 'debug pages', 'info pages'], 'the lines of all pages');
    }),
    row('GET /plugin-logs: sessionId restricts to one session.', async (run) => {
      const { installationId } = await run.kit();
      const session = await run.newSession('logger');
      await run.writeLog('one-session', 'error', session);
      const { body } = await run.own.get(
        `/plugin-logs?installationId=${installationId}&sessionId=${session}&limit=1000`,
      );
      expect(body.items, holding({ message: 'info one-session' }));
      ensure(
        body.items.every(({ sessionId }: { sessionId: string }) => sessionId === session),
        'other sessions are there',
      );
    }),
    row('Request bodies are JSON unless stated.', async (run) => {
      const answer = await run.own.post('/plugins', undefined, {
        raw: 'slug=a',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      });
      expect(answer, { status: 415, body: { code: 'unsupported_media_type' } });
    }),
    row('Installed or not is a boolean of each entry.', async (run) => {
      const { slug } = await run.plain();
      expect((await run.own.get(`/marketplace/${slug}`)).body, { installed: isBoolean });
    }),
  ],
};
