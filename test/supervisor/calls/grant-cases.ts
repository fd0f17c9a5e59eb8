/** The calls of the grant matrix, and a fixture with two accounts that each own one of everything a host call can name. */
import { dirname } from 'node:path';
import { capabilities, type HostCallName } from '../../../sdk/contract/protocol.ts';
import { serve } from '../../fixtures/listening-server.ts';
import { registerParts } from '../../fixtures/registrations.ts';
import type { Teardown } from '../../runner/harness.ts';
import { startDns } from '../host/dns-server.ts';
import { openAi, startModelServer } from '../host/model-server.ts';
import { noSshd, startSshd } from '../host/sshd.ts';
import { type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';

/** One of everything that a call can name, as its owner knows it. */
export interface Things {
  /** A text that only the owner's things hold. */
  readonly canary: string;
  readonly agentId: string;
  readonly mediaId: string;
  readonly hostId: string;
  /** Path of an asset in the plugin's package. */
  readonly asset: string;
  readonly path: string;
  readonly key: string;
  readonly secret: string;
  readonly secretValue: string;
  /** Handle of a secret that only the host uses. */
  readonly handle: string;
  readonly model: string;
  readonly url: string;
}
/** Bytes as JSON carries them to the plugin, which makes them bytes again. */
const bytes = (text: string) => ({ bytes: [...Buffer.from(text)] });

/** The arguments of every call, for the objects of one account. A missing row is a compile error. */
export const argumentsAbout = {
  'secrets.get': ({ secret }) => [secret],
  'secrets.verify': ({ handle }) => ['GitHub', {}, bytes('{}'), handle],
  'assets.read': ({ asset }) => [asset],
  'assets.readText': ({ asset }) => [asset],
  'session.get': () => [],
  'session.messages': () => [],
  'session.post': () => ['posted'],
  'session.notice': () => ['noticed'],
  'agents.list': () => [],
  'agents.create': () => [{ name: 'Another' }],
  'agents.update': ({ agentId }) => [agentId, { instructions: 'changed' }],
  'agents.remove': ({ agentId }) => [agentId],
  'agents.send': ({ agentId }) => [agentId, 'sent'],
  'models.list': () => [],
  'llm.complete': ({ model }) => [{ model, messages: [{ role: 'user', text: 'x' }] }],
  'workspace.list': ({ path }) => [dirname(path)],
  'workspace.read': ({ path }) => [path],
  'workspace.readText': ({ path }) => [path],
  'workspace.write': ({ path }) => [path, 'written'],
  'workspace.remove': ({ path }) => [path],
  'media.put': ({ canary }) => [bytes(canary)],
  'media.get': ({ mediaId }) => [mediaId],
  'media.remove': ({ mediaId }) => [mediaId],
  'ssh.hosts': () => [],
  'ssh.run': ({ hostId }) => [hostId, 'echo ran'],
  'storage.get': ({ key }) => [key],
  'storage.set': ({ key }) => [key, 'set'],
  'storage.delete': ({ key }) => [key],
  'storage.list': ({ key }) => [key],
  'http.fetch': ({ url }) => [url],
} as const satisfies { readonly [Name in HostCallName]: (about: Things) => readonly unknown[] };

const isRemoval = (name: string): boolean => /\.(remove|delete)$/.test(name);
/** The calls in order. Those that remove something come last, because the others need it. */
export const calls = (Object.keys(argumentsAbout) as HostCallName[]).toSorted(
  (a, b) => Number(isRemoval(a)) - Number(isRemoval(b)),
);

export type Answer =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly code: string; readonly message: string };

/** As a plugin of a real child; the forging child answers the same without running it. */
const CALLING = `tools.run = { description: 'd', parameters: { type: 'object' }, handler: async ({ member, args, absentOf }) => {
  const isAbsent = (member) => {
    const [group, name] = member.split('.');
    return host[group]?.[name] === undefined;
  };
  if (absentOf) return JSON.stringify({ ok: true, value: absentOf.filter(isAbsent) });
  const [group, name] = member.split('.');
  if (isAbsent(member)) return JSON.stringify({ ok: false, code: 'absent', message: member });
  const given = args.map((arg) => (arg?.bytes ? new Uint8Array(arg.bytes) : arg));
  return host[group][name](...given).then(
    (value) => JSON.stringify({ ok: true, value }, (_, part) => (part instanceof Uint8Array ? new TextDecoder().decode(part) : part)),
    ({ code, message }) => JSON.stringify({ ok: false, code, message }));
} };`;
const RUN = { description: 'd', parameters: { type: 'object' } };
const registered = registerParts({ tools: { run: RUN } });
const offering = registerParts({ providers: { acme: { models: [{ id: 'm', name: 'M' }] } } });

const isRead = (capability: string): boolean => capability.endsWith(':read');
const declarable = Object.keys(capabilities).flatMap((member) => [`host.${member}`, `host.${member}:read`]);
const WHOLE = declarable.filter((capability) => !isRead(capability));

export interface MatrixFixture {
  readonly fixture: SupervisorFixture;
  /** Ann's, whose plugins are `all`, `reads` and `none`; Bob's, whose plugin is `bobs`; and what nobody has. */
  readonly ann: Things;
  readonly bob: Things;
  readonly nobody: Things;
  readonly bobsInstallation: string;
  runIn(slug: string, told: object): Promise<Answer>;
}

/** @param sandbox another child program than the real one */
export async function openMatrix(test: Teardown, sandbox?: SupervisorFixture['sandbox']): Promise<MatrixFixture> {
  const [models, dns] = [await startModelServer(test), await startDns(test)];
  models.answers = [openAi('said')];
  const { port } = await serve(test, (_request, response) => response.end('fetched'));
  for (const name of ['ann.test', 'bob.test']) dns.set(name, ['127.0.0.1']);
  const allowPrivate = new Set([`ann.test:${port}`, `bob.test:${port}`]);
  const [target] = noSshd ? [] : await (await startSshd(test)).targets();
  const provider = { name: 'main', kind: 'openai', baseUrl: models.url, apiKey: 'k', structuredOutputs: true } as const;
  const fixture = await startSupervisorFixture(test, {
    http: { dnsServers: [dns.address], allowPrivate },
    models: [{ ...provider, models: [{ id: 'small', name: 'S', contextWindow: undefined, price: undefined }] }],
    sshTargets: target ? [target, { ...target, id: 'bobs-host', name: 'Bob’s', accounts: ['bob'] }] : [],
    ...(sandbox ? { sandbox } : {}),
  });
  const plugin = { code: CALLING, registrations: registered };
  const files = (who: string) => ({ files: { [`assets/${named(who).asset}`]: named(who).canary } });
  const secret = (who: string) => ({
    secrets: { [`${who}Key`]: `secret of ${who}`, [`${who}Signing`]: `signing of ${who}` },
    secretUses: { [`${who}Signing`]: ['webhooks'] },
  });
  await fixture.install({
    ...plugin,
    ...files('ann'),
    ...secret('ann'),
    slug: 'all',
    capabilities: [...WHOLE, 'host.http:ann.test'],
  });
  await fixture.install({ ...plugin, slug: 'reads', capabilities: declarable.filter(isRead) });
  await fixture.install({ ...plugin, slug: 'none' });
  const bobs = {
    ...plugin,
    ...files('bob'),
    ...secret('bob'),
    account: 'bob',
    capabilities: [...WHOLE, 'host.http:bob.test'],
  };
  const { installationId } = await fixture.install({ ...bobs, slug: 'bobs' });
  await fixture.install({ account: 'bob', slug: 'bobs-models', code: '', registrations: offering });
  const sessions = { ann: await fixture.session('ann'), bob: await fixture.session('bob') };
  const runIn = async (slug: string, told: object): Promise<Answer> => {
    const account = slug === 'bobs' ? 'bob' : 'ann';
    const path = `/sessions/${sessions[account]}/tools/${slug}__run`;
    const { body } = await fixture.call('POST', path, { arguments: told }, account);
    return JSON.parse(body.content?.[0]?.text ?? JSON.stringify(body));
  };
  const own = { hostId: 'web', model: 'main/small', url: `http://ann.test:${port}/` };
  const theirs = { hostId: 'bobs-host', model: 'bobs-models__acme/m', url: `http://bob.test:${port}/` };
  const none = { hostId: 'no-host', model: 'nobody__acme/m', url: `http://not.test:${port}/` };
  const nothing = {
    agentId: crypto.randomUUID(),
    mediaId: 'f'.repeat(64),
    handle: NO_HANDLE,
    ...named('not'),
    ...none,
  };
  return {
    fixture,
    runIn,
    bobsInstallation: installationId,
    nobody: nothing,
    ann: { ...(await make(runIn, 'all', 'ann')), ...own },
    bob: { ...(await make(runIn, 'bobs', 'bob')), ...theirs },
  };
}

const NO_HANDLE = `secret:notSigning:${'0'.repeat(32)}`;
const named = (who: string) => ({
  canary: `canary of ${who}`,
  asset: `${who}-data/file.txt`,
  path: `${who}-folder/file.txt`,
  key: `${who}-key`,
  secret: `${who}Key`,
  secretValue: `secret of ${who}`,
});

/** Makes what an account owns through its own plugin. */
async function make(runIn: MatrixFixture['runIn'], slug: string, who: string) {
  const own = named(who);
  const done = async (member: HostCallName, ...args: unknown[]): Promise<unknown> => {
    const answer = await runIn(slug, { member, args });
    if (!answer.ok) throw new Error(JSON.stringify(answer));
    return answer.value;
  };
  await done('workspace.write', own.path, own.canary);
  await done('storage.set', own.key, own.canary);
  const agent = (await done('agents.create', { name: own.canary })) as { id: string };
  const media = (await done('media.put', bytes(own.canary))) as { id: string };
  const handle = (await done('secrets.get', `${who}Signing`)) as string;
  return { ...own, handle, agentId: agent.id, mediaId: media.id };
}
