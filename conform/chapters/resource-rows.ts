/** Specification: resources and their fields. */
import { ensure, expect, holding, isHash, isList, isText, oneOf } from '../expect.ts';
import { fileList, packageOf, zipPackage } from '../packages.ts';
import { type Chapter, row } from '../row.ts';
import { followDraft, followUpdates, LAYERED, publishAndDelist } from './call-sequences.ts';

export const resources: Chapter = {
  title: 'Specification: resources and their fields',
  rows: [
    row('All ids in requests and responses are strings.', async (run) => {
      const { created, zip, installed } = await publishAndDelist(run);
      for (const { body } of [created, zip, installed]) expect(body, { id: isText });
    }),
    row('A plugin’s id is assigned on creation.', async (run) => {
      const { created } = await publishAndDelist(run);
      expect(created, { status: 201, body: { id: isText, slug: run.slug('author') } });
    }),
    row('slug: required on create.', async ({ own }) =>
      expect(await own.post('/plugins', { displayName: 'X' }), { status: 400, body: { errors: [{ field: 'slug' }] } }),
    ),
    row('slug: must be unused.', async (run) => {
      const { slug } = await run.plain();
      expect(await run.own.post('/plugins', { slug, displayName: 'X' }), { status: 409, body: { code: 'slug_taken' } });
    }),
    row('displayName: required on create.', async (run) =>
      expect(await run.own.post('/plugins', { slug: run.slug('nameless') }), {
        status: 400,
        body: { errors: [{ field: 'displayName' }] },
      }),
    ),
    row('description: accepted on create.', async (run) => {
      const { created } = await publishAndDelist(run);
      expect(created.body, { description: 'Of the plugin' });
    }),
    row('visibility: present in the plugin detail.', async (run) => {
      const { second } = await publishAndDelist(run);
      expect(second.body, { visibility: oneOf('private', 'listed', 'delisted') });
    }),
    row('versions: array of Version, present in the plugin detail.', async (run) => {
      const { second } = await publishAndDelist(run);
      expect(second.body.versions, [{ semVer: '1.1.0' }, { semVer: '1.0.0' }]);
    }),
    row('files: only when the detail is requested with includeFiles=true.', async (run) => {
      const { second, afterYank } = await publishAndDelist(run);
      expect(second.body, { files: isList });
      ensure(!('files' in afterYank.body), 'the detail without includeFiles has files');
    }),
    row('files: holds the latest files.', async (run) => {
      const { second } = await publishAndDelist(run);
      for (const [path, contentText] of Object.entries(LAYERED))
        expect(second.body.files, holding({ path, contentText }), 'the files');
    }),
    row('The plugin’s tier is community (sandboxed, the default) or verified.', async (run) => {
      const { created } = await publishAndDelist(run);
      expect(created.body, { tier: oneOf('community', 'verified') });
    }),
    row('A version’s id is used as {versionId} in paths and bodies.', async (run) => {
      const { accepted, yanked } = { ...(await followUpdates(run)), ...(await publishAndDelist(run)) };
      expect([accepted.status, yanked.status], [200, 200], 'accept-update and yank by version id');
    }),
    row('semVer: unique per plugin.', async (run) => {
      const { filesAgain, zipAgain } = await publishAndDelist(run);
      for (const again of [filesAgain, zipAgain]) expect(again, { status: 409, body: { code: 'version_exists' } });
    }),
    row('semVer: immutable once accepted.', async (run) => {
      const { zip, second } = await publishAndDelist(run);
      expect(second.body.versions, holding({ semVer: '1.0.0', sourceSha256: zip.body.sourceSha256 }));
    }),
    row('sourceSha256: hash of the version’s source.', async (run) => {
      const { zip } = await publishAndDelist(run);
      expect(zip.body, { sourceSha256: isHash });
    }),
    row('A file has a path inside the package and its text content.', async (run) => {
      const { second } = await publishAndDelist(run);
      expect(second.body.files[0], { path: isText, contentText: isText });
    }),
    row('contentText: only text files are allowed in this form.', async (run) => {
      const { id } = await run.plain();
      const files = fileList({ ...packageOf(), 'data.bin': 'a\0b' });
      expect(await run.own.publishFiles(id, run.unusedSemVer(), files), {
        status: 422,
        body: { code: 'text_files_only' },
      });
    }),
    row('readme.md is required.', async (run) => {
      const { id } = await run.plain();
      const answer = await run.own.publishFiles(id, run.unusedSemVer(), fileList({ 'index.ts': 'x' }));
      expect(answer, { status: 422, body: { code: 'invalid_package', detail: /readme\.md/ } });
    }),
    row('The readme’s frontmatter carries the plugin name and description.', async (run) => {
      const { id } = await run.plain();
      for (const text of ['# No frontmatter', '---\nname: X\n---\n', '---\ndescription: X\n---\n']) {
        const answer = await run.own.publishFiles(
          id,
          run.unusedSemVer(),
          fileList({ ...packageOf(), 'readme.md': text }),
        );
        expect(answer, { status: 422, body: { errors: [{ path: 'readme.md' }] } }, text);
      }
    }),
    row('The frontmatter of Latest is the plugin’s name and description.', async (run) => {
      const { entry } = await publishAndDelist(run);
      expect(entry.body, { displayName: 'Layered', description: 'Has a file beside its code' });
    }),
    row('index.ts holds the code.', async (run) => {
      const { id } = await run.plain();
      const { 'index.ts': _, ...rest } = packageOf();
      expect(await run.own.publishFiles(id, run.unusedSemVer(), fileList(rest)), {
        status: 422,
        body: { detail: /index\.ts/ },
      });
    }),
    row('In a zip upload the package may sit inside one wrapper folder.', async (run) => {
      const { zip } = await publishAndDelist(run);
      expect(zip, { status: 201 });
    }),
    row('Binary assets can be published through the zip upload.', async (run) => {
      const { id } = await run.createPlugin('assets');
      const zip = zipPackage({ ...packageOf(), 'assets/dot.bin': new Uint8Array([0, 255, 1]) });
      expect(await run.own.publishZip(id, '1.0.0', zip), { status: 201 });
    }),
    row('Binary assets can be published only through the zip upload.', async (run) => {
      const { id } = await run.plain();
      const files = fileList({ ...packageOf(), 'assets/dot.bin': '\ud800' });
      expect(await run.own.publishFiles(id, run.unusedSemVer(), files), {
        status: 422,
        body: { code: 'text_files_only' },
      });
    }),
    row('versionPolicy: Latest is the default.', async (run) => {
      const { installed } = await followUpdates(run);
      expect(installed.body, { id: isText, versionPolicy: 'Latest' });
    }),
    row('versionPolicy: an enum of Latest, Pinned and Draft.', async (run) => {
      const { slug } = await run.plain();
      expect(await run.own.post('/installations', { slug, versionPolicy: 'latest' }), { status: 400 });
    }),
    row('Draft: own plugin only.', async (run) => {
      const { slug } = await run.plain();
      const answer = await run.other.post('/installations', { slug, versionPolicy: 'Draft' });
      expect(answer, { status: 403, body: { code: 'draft_owner_only' } });
    }),
    row('pinnedVersionId: null, as GET answers it, is the same as none.', async (run) => {
      const { installationId } = await run.kit();
      const change = { versionPolicy: 'Latest', pinnedVersionId: null };
      expect(await run.own.patch(`/installations/${installationId}`, change), { status: 200, body: change });
    }),
    row('pinnedVersionId: used with policy Pinned.', async (run) => {
      const { pinned, pinnedId } = await followUpdates(run);
      expect(pinned, { status: 200, body: { versionPolicy: 'Pinned', pinnedVersionId: pinnedId } });
    }),
    row('settings: an object of string to string.', async (run) => {
      const { installationId } = await run.kit();
      const path = `/installations/${installationId}/configure`;
      expect(await run.own.post(path, { settings: { note: 7 } }), { status: 400, body: { code: 'bad_request' } });
      expect(await run.own.post(path, { settings: { note: 'kept' } }), {
        status: 200,
        body: { settings: { note: 'kept' } },
      });
    }),
    row('secrets: write-only; never returned in any response.', async (run) => {
      const { installationId, slug } = await run.kit();
      const path = `/installations/${installationId}`;
      const answers = await Promise.all([
        run.own.get(path),
        run.own.get('/installations?limit=1000'),
        run.own.post(`${path}/configure`, { secrets: { apiKey: 'conform-secret-value' } }),
        run.own.get(`${path}/audit`),
        run.own.get(`/marketplace/${slug}`),
      ]);
      for (const { text } of answers)
        ensure(!text.includes('conform-secret-value'), `a secret in ${text.slice(0, 200)}`);
    }),
    row(
      'A catalog entry carries the readme, the capabilities, what the plugin can reach, and whether the caller has installed it.',
      async (run) => {
        const { entry } = await publishAndDelist(run);
        expect(entry, {
          status: 200,
          body: {
            readme: /# Layered/,
            capabilities: holding('middleware.systemPrompt'),
            reach: holding({ capability: 'middleware.systemPrompt', sentence: isText }),
            installed: false,
          },
        });
      },
    ),
    row(
      'A log line is a line the plugin wrote through host.log, tied to an installation and optionally a session.',
      async (run) => {
        const { installationId } = await run.kit();
        expect(await run.writeLog('tied'), { installationId, sessionId: await run.session() });
      },
    ),
    row('Every published version is immutable. A fix is a new semantic version.', async (run) => {
      const { zip, files } = await publishAndDelist(run);
      expect([zip.body.semVer, files.body.semVer], ['1.0.0', '1.1.0']);
    }),
    row(
      'On upload the backend introspects commands, skills, middleware, lifecycle handlers, tools and providers.',
      async (run) => {
        const { slug } = await run.kit();
        const { body } = await run.own.get(`/marketplace/${slug}`);
        expect(body.discovered, {
          commands: holding({ name: 'greet', source: 'prompt' }),
          skills: [{ name: 'baking', description: 'How to bake' }],
          middleware: holding('middleware.todoCreate'),
          lifecycle: holding('sessionStarted'),
          tools: holding({ name: 'host' }),
          providers: [{ name: 'conform' }],
        });
      },
    ),
    row('Everything that a draft holds is built and validated like a publish.', async (run) => {
      const { invalid } = await followDraft(run);
      expect(invalid, { status: 422, body: { code: 'invalid_package' } });
    }),
  ],
};
