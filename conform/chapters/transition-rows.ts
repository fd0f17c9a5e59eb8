/** Specification: states and transitions. */
import { ensure, expect, holding, isText } from '../expect.ts';
import { type Chapter, row } from '../row.ts';
import { followUpdates, pauseAndUninstall, publishAndDelist } from './call-sequences.ts';

export const transitions: Chapter = {
  title: 'Specification: states and transitions',
  rows: [
    row('Publish: the version exists with status published.', async (run) => {
      const { zip, files } = await publishAndDelist(run);
      for (const answer of [zip, files]) expect(answer, { status: 201, body: { status: 'published' } });
    }),
    row('Publish: capabilities are introspected.', async (run) => {
      const { zip } = await publishAndDelist(run);
      expect(zip.body, {
        capabilities: holding('middleware.systemPrompt'),
        discovered: { commands: [{ name: 'hi' }] },
      });
    }),
    row('Publish of a semVer that exists: 409 and no change.', async (run) => {
      const { zipAgain, zip, second } = await publishAndDelist(run);
      expect(zipAgain.status, 409);
      expect(second.body.versions, holding({ id: zip.body.id, bundleSha256: zip.body.bundleSha256 }));
    }),
    row('Yank of a version that is not the last one: it is yanked.', async (run) => {
      const { yanked, afterYank } = await publishAndDelist(run);
      expect(yanked.status, 200);
      expect(afterYank.body.versions, holding({ semVer: '1.1.0', status: 'yanked' }));
    }),
    row('Yank of the last version is rejected.', async (run) => {
      const { yankLast } = await publishAndDelist(run);
      expect(yankLast, { status: 409, body: { code: 'last_version' } });
    }),
    row('POST listing with at least one published version: the plugin is listed in the catalog.', async (run) => {
      const { slug } = await run.plain();
      expect((await run.own.get(`/marketplace?q=${slug}`)).body.items, holding({ slug, visibility: 'listed' }));
    }),
    row('POST listing: other accounts see the plugin.', async (run) => {
      const { slug } = await run.plain();
      expect(await run.other.get(`/marketplace/${slug}`), { status: 200, body: { slug, installed: false } });
    }),
    row('DELETE listing: the plugin is removed from the catalog.', async (run) => {
      const { delisted, created } = await publishAndDelist(run);
      expect(delisted, { status: 200, body: { visibility: 'delisted' } });
      expect((await run.other.get(`/marketplace/${created.body.slug}`)).status, 404);
    }),
    row('DELETE listing: existing installs keep working.', async (run) => {
      const { afterDelisting } = await publishAndDelist(run);
      expect(afterDelisting, { status: 200, body: { status: 'ready' } });
    }),
    row('DELETE listing: existing installs show the deprecation message.', async (run) => {
      const { afterDelisting } = await publishAndDelist(run);
      expect(afterDelisting.body, { deprecationMessage: 'Use another one.' });
    }),
    row('DELETE plugin without a published version: it is deleted.', async (run) => {
      const { id } = await run.createPlugin('short-lived');
      expect((await run.own.delete(`/plugins/${id}`)).status, 204);
      expect(await run.own.get(`/plugins/${id}`), { status: 404, body: { code: 'not_found' } });
    }),
    row('DELETE plugin with a published version is rejected.', async (run) => {
      const { deletePublished } = await publishAndDelist(run);
      expect(deletePublished, { status: 409, body: { code: 'published_version_exists' } });
    }),
    row('POST /installations: pluginInstalled is sent.', async (run) => {
      const { installationId } = await run.kit();
      // Another row may have sent it again already.
      await run.until('pluginInstalled', async () => {
        const { items } = (await run.own.get(`/installations/${installationId}/events`)).body;
        return items.some(
          ({ type, state, data }: { type: string; state: string; data: { reason?: unknown } }) =>
            type === 'pluginInstalled' && state === 'delivered' && data.reason === 'install',
        );
      });
    }),
    row('rerun-setup: the installation is unchanged and pluginInstalled is sent again.', async (run) => {
      const { installationId, watch } = await run.kit();
      const answer = await run.own.post(`/installations/${installationId}/rerun-setup`);
      expect(answer, { status: 202, body: { eventId: isText } });
      const line = await watch.find('pluginInstalled', ({ data }) => data?.id === answer.body.eventId);
      expect(line.data, { type: 'pluginInstalled', data: { reason: 'rerun-setup' } });
    }),
    row('accept-update: the given version is accepted, including one that asks for more access.', async (run) => {
      const { accepted, grown } = await followUpdates(run);
      expect(accepted.status, 200);
      expect(grown.body, { currentSemVer: '1.3.0', grantedCapabilities: holding('host.models') });
    }),
    row('DELETE installation: it is removed.', async (run) => {
      const { removed } = await pauseAndUninstall(run);
      expect(removed.status, 204);
    }),
    row('DELETE installation: the plugin’s agents are removed.', async (run) => {
      const { agents, agentsAfter, plugin } = await pauseAndUninstall(run);
      const own = ({ installationId }: { installationId: string | null }) => installationId === plugin.installationId;
      ensure(agents.body.items.some(own), 'the plugin made an agent, and GET /agents does not list it');
      ensure(!agentsAfter.body.items.some(own), 'the agent outlived its installation');
    }),
    row('DELETE installation: the sessions of its channels are removed.', async (run) => {
      const { sessionAfter } = await pauseAndUninstall(run);
      expect(sessionAfter.status, 404);
    }),
    row('DELETE installation: its channels are removed.', async (run) => {
      const { webhookStatus } = await pauseAndUninstall(run);
      expect(webhookStatus, 410);
    }),
    row('DELETE installation: pluginUninstalled is sent.', async (run) => {
      const { event } = await pauseAndUninstall(run);
      expect(event.data, { type: 'pluginUninstalled', data: { by: 'user' } });
    }),
  ],
};
