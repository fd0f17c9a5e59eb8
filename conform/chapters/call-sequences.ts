/** Sequences of calls whose answers several rows check. Each runs once in a run. */
import type { Answer } from '../account.ts';
import { fileList, type Package, packageOf, zipPackage } from '../packages.ts';
import type { Run } from '../run.ts';

/** Its zip and its file list must have the same hash, although its paths sort differently as bytes and by a locale. */
export const LAYERED: Package = packageOf(
  `import { suffix } from './lib/suffix.ts';\nmiddleware.systemPrompt = (ctx) => (ctx.systemPrompt === 'layered' ? suffix : undefined);\n`,
  { name: 'Layered', description: 'Has a file beside its code' },
  {
    'lib/suffix.ts': "export const suffix = '!';\n",
    'Z.json': '{}\n',
    'commands/hi.md': '---\ndescription: Says hi\n---\nHi!\n',
  },
);

/** Creates a plugin, publishes, lists and yanks versions of it, and delists it. */
export function publishAndDelist(run: Run) {
  return run.once('publish and delist', async () => {
    const { own } = run;
    const created = await own.post('/plugins', {
      slug: run.slug('author'),
      displayName: 'Author',
      description: 'Of the plugin',
    });
    const { id } = created.body;
    const listedEmpty = await own.post(`/plugins/${id}/listing`);
    const zip = await own.publishZip(id, '1.0.0', zipPackage(LAYERED, 'wrapper/'));
    const zipAgain = await own.publishZip(id, '1.0.0', zipPackage(packageOf()));
    const filesAgain = await own.publishFiles(id, '1.0.0', fileList(packageOf()));
    const yankLast = await own.post(`/plugins/${id}/versions/${zip.body.id}/yank`);
    const files = await own.publishFiles(id, '1.1.0', fileList(LAYERED));
    const second = await own.get(`/plugins/${id}?includeFiles=true`);
    const listed = await own.post(`/plugins/${id}/listing`);
    const entry = await own.get(`/marketplace/${created.body.slug}`);
    const deletePublished = await own.delete(`/plugins/${id}`);
    const yanked = await own.post(`/plugins/${id}/versions/${files.body.id}/yank`);
    const yankedAgain = await own.post(`/plugins/${id}/versions/${files.body.id}/yank`);
    const afterYank = await own.get(`/plugins/${id}`);
    const yankedNumber = await own.publishFiles(id, '1.1.0', fileList(packageOf()));
    const installed = await own.post('/installations', { slug: created.body.slug });
    const delisted = await own.delete(`/plugins/${id}/listing`, { deprecationMessage: 'Use another one.' });
    const afterDelisting = await own.get(`/installations/${installed.body.id}`);
    const stillOwn = await own.get(`/marketplace?q=${created.body.slug}`);
    return {
      created,
      listedEmpty,
      zip,
      zipAgain,
      filesAgain,
      yankLast,
      files,
      second,
      listed,
      entry,
      deletePublished,
      yanked,
      yankedAgain,
      afterYank,
      yankedNumber,
      installed,
      delisted,
      afterDelisting,
      stillOwn,
    };
  });
}

const withEvents = (more: string) =>
  `const write = (event: any) => host.log('event ' + event.type, event);
   events.pluginInstalled = write; events.pluginUpdated = write; events.pluginUninstalled = write;
   tools.which = { description: 'Its version', parameters: { type: 'object' }, handler: () => ${more} };`;
const release = (which: string, more = '') => fileList(packageOf(withEvents(`'${which}'`), { more }));

/** Updates two installations: one by consent, one by its version policy. */
export function followUpdates(run: Run) {
  return run.once('follow updates', async () => {
    const [consents, policies] = await Promise.all([followByConsent(run), followByPolicy(run)]);
    return { ...consents, ...policies };
  });
}

/** Installs version 1.0.0 of a plugin that publishes further ones. */
async function installMover(run: Run, name: string) {
  const { own } = run;
  const plugin = await run.createPlugin(name);
  const publish = async (semVer: string, more = ''): Promise<string> =>
    (await own.need(own.publishFiles(plugin.id, semVer, release(semVer, more)), 201)).id;
  const first = await publish('1.0.0');
  const installed = await own.post('/installations', { slug: plugin.slug });
  const path = `/installations/${installed.body.id}`;
  const waitForVersion = (semVer: string): Promise<Answer> =>
    run.until(`the move to ${semVer}`, async () => {
      const answer = await own.get(path);
      return answer.body.currentSemVer === semVer && answer;
    });
  const waitForPendingUpdate = (versionId: string): Promise<Answer> =>
    run.until('the pending update', async () => {
      const answer = await own.get(path);
      return answer.body.pendingUpdate?.versionId === versionId && answer;
    });
  return { plugin, publish, first, installed, path, waitForVersion, waitForPendingUpdate };
}

async function followByConsent(run: Run) {
  const { own } = run;
  const { publish, first, installed, path, waitForVersion, waitForPendingUpdate } = await installMover(run, 'mover');
  const watch = await run.watch(installed.body.id);
  const second = await publish('1.1.0');
  const moved = await waitForVersion('1.1.0');
  const third = await publish('1.2.0', 'capabilities: [host.llm]');
  const pending = await waitForPendingUpdate(third);
  const acceptWrong = await own.post(`${path}/accept-update`, { versionId: first });
  const fourth = await publish('1.3.0', 'capabilities: [host.llm, host.models]');
  const replaced = await waitForPendingUpdate(fourth);
  const acceptOld = await own.post(`${path}/accept-update`, { versionId: third });
  const accepted = await own.post(`${path}/accept-update`, { versionId: fourth });
  const grown = await waitForVersion('1.3.0');
  await publish('1.4.0');
  const shrunk = await waitForVersion('1.4.0');
  const ids = { first, second, third, fourth };
  return { watch, ids, installed, moved, pending, acceptWrong, replaced, acceptOld, accepted, grown, shrunk };
}

async function followByPolicy(run: Run) {
  const { own } = run;
  const { plugin, publish, first, path, waitForVersion } = await installMover(run, 'pinner');
  const yank = (versionId: string) => own.need(own.post(`/plugins/${plugin.id}/versions/${versionId}/yank`));
  const pin = (pinnedVersionId?: string) => own.patch(path, { versionPolicy: 'Pinned', pinnedVersionId });
  const pinnedId = await publish('1.1.0');
  const pinMissing = await pin();
  const pinForeign = await pin((await run.plain()).versionId);
  await yank(first);
  const pinYanked = await pin(first);
  const pinned = await pin(pinnedId);
  await waitForVersion('1.1.0');
  await publish('1.4.0');
  await yank(pinnedId);
  const pinnedYanked = await own.get(path);
  const newest = await publish('1.5.0');
  const stillPinned = await own.get(path);
  const followed = await own.patch(path, { versionPolicy: 'Latest' });
  const latest = await waitForVersion('1.5.0');
  await publish('2.0.0-beta.1');
  const afterPreRelease = await own.get(path);
  await yank(newest);
  const afterYank = await waitForVersion('1.4.0');
  const refused = { pinMissing, pinForeign, pinYanked };
  return { ...refused, pinnedId, pinned, pinnedYanked, stillPinned, followed, latest, afterPreRelease, afterYank };
}

/** Saves a draft twice while an installation follows it. */
export function followDraft(run: Run) {
  return run.once('follow a draft', async () => {
    const { own } = run;
    const plugin = await run.createPlugin('drafted');
    const without = await own.post('/installations', { slug: plugin.slug, versionPolicy: 'Draft' });
    const saved = await own.post(`/plugins/${plugin.id}/draft`, { files: fileList(LAYERED) });
    const invalid = await own.post(`/plugins/${plugin.id}/draft`, {
      files: fileList({ 'readme.md': 'no frontmatter' }),
    });
    const installed = await own.post('/installations', { slug: plugin.slug, versionPolicy: 'Draft' });
    const path = `/installations/${installed.body.id}`;
    const code = "tools.fresh = { description: 'Fresh', parameters: { type: 'object' }, handler: () => 'x' };\n";
    const again = await own.post(`/plugins/${plugin.id}/draft`, { files: fileList(packageOf(code)) });
    const moved = await run.until('the move to the second draft', async () => {
      const answer = await own.get(path);
      return answer.body.currentVersionId !== installed.body.currentVersionId && answer;
    });
    const detail = await own.get(`/plugins/${plugin.id}`);
    return { plugin, without, saved, invalid, installed, again, moved, detail };
  });
}

/** Pauses, resumes and uninstalls an installation that has an agent, a channel and a session. */
export function pauseAndUninstall(run: Run) {
  return run.once('pause and uninstall', async () => {
    const { own } = run;
    const code = `
      tools.make = { description: 'Makes an agent', parameters: { type: 'object' }, handler: () => host.agents.create({ name: 'Helper' }) };
      middleware.agentMessage = () => undefined;
      channel.receive = () => ({ messages: [{ conversationKey: 'k', from: 'a', text: 'hello' }] });
      events.pluginUninstalled = (event) => host.log('event pluginUninstalled', event);`;
    const plugin = await run.install('removed', packageOf(code, { more: 'capabilities: [host.agents]' }));
    const path = `/installations/${plugin.installationId}`;
    const watch = await run.watch(plugin.installationId);
    const channel = await own.need(own.post(`${path}/channels`, { name: 'inbox' }), 201);
    const session = await run.newSession('remover');
    const made = await own.session('POST', `/sessions/${session}/tools/${plugin.slug}__make`, { arguments: {} });
    const agents = await own.get('/agents');
    const address = run.webhookAddress(channel.webhookUrl);
    await fetch(address, { method: 'POST', body: 'x' });
    const channelSessions = await run.until('the session of the channel', async () => {
      const { items } = (await own.session('GET', '/sessions?limit=1000')).body;
      const found = items.filter(({ channelId }: { channelId: string }) => channelId === channel.id);
      return found.length > 0 && found;
    });
    const runChain = async () => {
      const context = { fromAgentId: 'a', toAgentId: 'b', message: { text: 'x' } };
      const { trace } = (await run.hook('agentMessage', context, session)).body;
      return trace.some(({ slug }: { slug: string }) => slug === plugin.slug);
    };
    const isInChain = await runChain();
    const paused = await own.post(`${path}/pause`);
    // The supervisor learns of the pause a moment later.
    const pausedTools = await run.until('the pause', async () => {
      const answer = await own.session('GET', `/sessions/${session}/tools`);
      return !answer.body.items.some(({ slug }: { slug: string }) => slug === plugin.slug) && answer;
    });
    const isInChainPaused = await runChain();
    const queued = await fetch(address, { method: 'POST', body: 'while paused' });
    const { id: deliveryId } = JSON.parse(await queued.text());
    const resumed = await own.post(`${path}/resume`);
    const delivered = await run.until('the delivery of what came while the plugin was paused', async () => {
      const answer = await own.get(`${path}/deliveries/${deliveryId}`);
      return answer.body.state === 'delivered' && answer;
    });
    const removed = await own.delete(path);
    const event = await watch.find('pluginUninstalled', ({ message }) => message === 'event pluginUninstalled');
    await run.until('the removal', async () => (await own.get(path)).status === 404);
    const isItsOwn = ({ installationId }: { installationId: string | null }) =>
      installationId === plugin.installationId;
    const agentsAfter = await run.until('the removal of the agents', async () => {
      const answer = await own.get('/agents');
      return !answer.body.items.some(isItsOwn) && answer;
    });
    const sessionAfter = await run.until('the removal of the session of the channel', async () => {
      const answer = await own.session('GET', `/sessions/${channelSessions[0].id}`);
      return answer.status === 404 && answer;
    });
    const webhookAfter = await fetch(address, { method: 'POST', body: 'x' });
    return {
      plugin,
      channel,
      made,
      agents,
      isInChain,
      paused,
      pausedTools,
      isInChainPaused,
      queuedStatus: queued.status,
      resumed,
      delivered,
      removed,
      event,
      agentsAfter,
      sessionAfter,
      webhookStatus: webhookAfter.status,
    };
  });
}

/** Installs a plugin without the secret that it requires. */
export function installGated(run: Run) {
  const secret = 'secrets: { key: { label: Key, required: true } }';
  return run.once('gated', () => run.install('gated', packageOf(undefined, { more: secret })));
}

/** Updates to a version that can be published, but throws on its start in an installation, where it has grants. */
export function updateToBroken(run: Run) {
  return run.once('broken update', async () => {
    const { own } = run;
    const code = (answer: string, start = '') =>
      `${start}tools.which = { description: 'Which', parameters: { type: 'object' }, handler: () => '${answer}' };`;
    const more = 'capabilities: [host.storage]';
    const plugin = await run.install('breaking', packageOf(code('old'), { more }));
    const path = `/installations/${plugin.installationId}`;
    const before = await own.need(own.get(path));
    const broken = packageOf(code('new', "if ('storage' in host) throw new Error('as asked');\n"), { more });
    await own.need(own.publishFiles(plugin.id, '1.1.0', fileList(broken)), 201);
    const after = await run.until('a statusReason about the update', async () => {
      const answer = await own.get(path);
      return answer.body.statusReason !== null && answer;
    });
    const tool = `/sessions/${await run.session()}/tools/${plugin.slug}__which`;
    return { before, after, answer: await own.session('POST', tool, { arguments: {} }) };
  });
}

/** Calls that crash the version: more than the supervisor needs to roll back. */
const CRASHES_MAX = 6;

/** Updates to a version that starts, but crashes at each call. */
export function updateToCrashing(run: Run) {
  return run.once('crashing update', async () => {
    const { own } = run;
    const code = (body: string) =>
      `tools.end = { description: 'End', parameters: { type: 'object' }, handler: () => { ${body} } };\n`;
    const plugin = await run.install('crashing', packageOf(code("return 'alive';")));
    const path = `/installations/${plugin.installationId}`;
    const before = await own.need(own.get(path));
    const filling = code('for (const all = []; ; ) all.push(new Array(1e6).fill(all.length));');
    const { id } = await own.need(own.publishFiles(plugin.id, '1.1.0', fileList(packageOf(filling))), 201);
    await run.until('the update', async () => (await own.get(path)).body.currentVersionId === id);
    const tool = `/sessions/${await run.session()}/tools/${plugin.slug}__end`;
    for (let crashes = 0; crashes < CRASHES_MAX; crashes += 1) {
      await own.session('POST', tool, { arguments: {} });
      if ((await own.get(path)).body.currentVersionId !== id) break;
    }
    const after = await run.until('the roll-back', async () => {
      const { body } = await own.get(path);
      return body.currentVersionId !== id && body;
    });
    return { before, after };
  });
}
