/** The steps of the model and the service: one class, and an arbitrary for each kind of step. */
import fc from 'fast-check';
import type { Answer, Client } from '../api/api-fixture.ts';
import { fileList } from '../api/package/packages.ts';
import { compare } from './comparison.ts';
import { checkMessages } from './guarded-messages.ts';
import { malformed, numbers, packages } from './packages.ts';
import { type Reality, removeUninstalled } from './reality.ts';
import type { Model, ModelInstallation, ModelPlugin, ModelVersion, Outcome, Policy } from './reference.ts';

/** The subjects of a step: the model and the real service. */
interface Scene {
  readonly model: Model;
  readonly real: Reality;
}
/** The result of the model, and the call of the service that must return the same. */
interface Move {
  readonly expected: Outcome;
  readonly plugin?: ModelPlugin | undefined;
  call(client: Client): Promise<Answer>;
  readonly account: string;
}

class Step implements fc.AsyncCommand<Model, Reality> {
  readonly #text: string;
  readonly #plan: (scene: Scene) => Move | null;

  constructor(text: string, plan: (scene: Scene) => Move | null) {
    this.#text = text;
    this.#plan = plan;
  }

  check = (): boolean => true;

  async run(model: Model, real: Reality): Promise<void> {
    const move = this.#plan({ model, real });
    if (!move) return;
    const { expected } = move;
    const answer = await move.call(real.client(move.account));
    const actual = { status: answer.status, ...(expected.code ? { code: answer.body?.code } : {}) };
    const meant = { status: expected.status, ...(expected.code ? { code: expected.code } : {}) };
    if (JSON.stringify(actual) !== JSON.stringify(meant)) {
      throw new Error(
        `the model says ${JSON.stringify(meant)}, the service ${answer.status} ${JSON.stringify(answer.body)}`,
      );
    }
    // A draft's answer has no id; the comparison fetches it.
    if (expected.made) expected.made.id = answer.body.id ?? '';
    await compare(model, real, move.plugin, move.account);
    await checkMessages(model, real);
    real.count(this.#text, answer.status);
  }

  toString(): string {
    return this.#text;
  }
}

/** One of a list by any number; undefined when the list is empty. */
const pick = <T>(list: readonly T[], at: number): T | undefined => list[at % Math.max(1, list.length)];
/** Mostly who may do it, at times somebody else. */
const actor = (rightful: string, { real }: Scene, at: number): string =>
  at < 14 ? rightful : (pick(real.accounts, at) ?? rightful);
const path = (plugin: ModelPlugin, rest = ''): string => `/plugins/${plugin.id}${rest}`;
const at = fc.nat(999);
const who = fc.nat(16);
const ofPackage = fc.constantFrom(...packages);
const policy = fc.constantFrom<Policy>('Latest', 'Latest', 'Pinned', 'Draft');

/** Mostly one that is there and fits, at times any. */
function pickPlugin({ plugins }: Model, n: number, fits: (plugin: ModelPlugin) => boolean = () => true) {
  const fitting = plugins.filter((plugin) => !plugin.deleted && fits(plugin));
  return pick(n % 8 === 0 || fitting.length === 0 ? plugins : fitting, n >> 3);
}
const hasVersions = ({ versions }: ModelPlugin): boolean => versions.length > 0;
const isListed = ({ visibility }: ModelPlugin): boolean => visibility === 'listed';

type PluginPlan = (plugin: ModelPlugin, account: string, scene: Scene) => Omit<Move, 'account' | 'plugin'>;
function onPlugin(text: string, n: number, by: number, plan: PluginPlan): Step {
  return new Step(`${text} of plugin ${n} by ${by}`, (scene) => {
    const plugin = pickPlugin(scene.model, n, text.startsWith('yank') ? hasVersions : undefined);
    if (!plugin) return null;
    const account = actor(plugin.owner, scene, by);
    return { account, plugin, ...plan(plugin, account, scene) };
  });
}
type InstallationPlan = (one: ModelInstallation, account: string, scene: Scene) => Omit<Move, 'account' | 'plugin'>;
function onInstallation(text: string, n: number, by: number, plan: InstallationPlan): Step {
  return new Step(`${text} of installation ${n} by ${by}`, (scene) => {
    const { installations } = scene.model;
    const gone = n % 8 === 0;
    const here = installations.filter((each) => each.gone === gone);
    const awaiting = here.filter(({ pending }) => pending !== null);
    const one = pick(text.startsWith('accept') && awaiting.length > 0 ? awaiting : here, n >> 3);
    if (!one) return null;
    const account = actor(one.account, scene, by);
    return { account, plugin: one.plugin, ...plan(one, account, scene) };
  });
}

const creating = fc.tuple(fc.nat(2), fc.nat(7)).map(
  ([by, slug]) =>
    new Step(`create ${slug} by ${by}`, ({ model, real }) => {
      const [account, name] = [real.accounts[by] ?? '', `${real.prefix}-${slug}`];
      const expected = model.create(account, name);
      return { account, expected, call: (client) => client.post('/plugins', { slug: name, displayName: name }) };
    }),
);
const semVer = fc.oneof(
  { weight: 30, arbitrary: fc.constantFrom(...numbers) },
  { weight: 1, arbitrary: fc.constantFrom(...malformed) },
);
const publishing = fc.tuple(at, who, semVer, ofPackage).map(([n, by, number, of]) =>
  onPlugin(`publish ${number} (${of.name})`, n, by, (plugin, account, { model }) => ({
    expected: model.publish(account, plugin, number, of),
    call: (client) => client.post(path(plugin, '/versions'), { semVer: number, files: fileList(of.files) }),
  })),
);
const drafting = fc.tuple(at, who, ofPackage).map(([n, by, of]) =>
  onPlugin(`draft (${of.name})`, n, by, (plugin, account, { model }) => ({
    expected: model.saveDraft(account, plugin, of),
    call: (client) => client.post(path(plugin, '/draft'), { files: fileList(of.files) }),
  })),
);
const listing = fc.tuple(at, who).map(([n, by]) =>
  onPlugin('list', n, by, (plugin, account, { model }) => ({
    expected: model.list(account, plugin),
    call: (client) => client.post(path(plugin, '/listing')),
  })),
);
const delisting = fc.tuple(at, who, fc.constantFrom('Use another', null)).map(([n, by, message]) =>
  onPlugin(`delist (${message})`, n, by, (plugin, account, { model }) => ({
    expected: model.delist(account, plugin, message),
    call: (client) => client.delete(path(plugin, '/listing'), message === null ? {} : { deprecationMessage: message }),
  })),
);
const yanking = fc.tuple(at, who, at).map(([n, by, v]) =>
  onPlugin(`yank version ${v}`, n, by, (plugin, account, { model }) => {
    const version = v === 0 ? undefined : pick(plugin.versions, v);
    const expected = model.yank(account, plugin, version);
    return { expected, call: (client) => client.post(path(plugin, `/versions/${version?.id ?? 'none'}/yank`)) };
  }),
);
const deleting = fc.tuple(at, who).map(([n, by]) =>
  onPlugin('delete', n, by, (plugin, account, { model }) => ({
    expected: model.remove(account, plugin),
    call: (client) => client.delete(path(plugin)),
  })),
);

/** A pin to one of the plugin's own versions, at times to another's, to a draft or to nothing. */
function pinOf(plugin: ModelPlugin, { model }: Scene, v: number): ModelVersion | undefined {
  if (v % 10 === 0) return undefined;
  if (v % 10 === 1) return plugin.draft ?? undefined;
  if (v % 10 === 2)
    return pick(
      model.plugins.flatMap((each) => each.versions),
      v,
    );
  return pick(plugin.versions, v);
}
const installing = fc.tuple(at, fc.nat(2), policy, at, fc.boolean()).map(
  ([n, by, versionPolicy, v, required]) =>
    new Step(`install plugin ${n} as ${versionPolicy} (${v}), required ${required}, by ${by}`, (scene) => {
      const picked = pickPlugin(scene.model, n, versionPolicy === 'Draft' ? undefined : isListed);
      if (!picked) return null;
      // The slug of a deleted plugin may be another's now.
      const plugin = scene.model.plugins.find(({ slug, deleted }) => slug === picked.slug && !deleted) ?? picked;
      const account = versionPolicy === 'Draft' && v % 4 > 0 ? plugin.owner : (scene.real.accounts[by] ?? '');
      const pinned = versionPolicy === 'Pinned' ? pinOf(plugin, scene, v) : undefined;
      const expected = scene.model.install(account, plugin, versionPolicy, pinned, required);
      const body = { slug: plugin.slug, versionPolicy, required, ...(pinned ? { pinnedVersionId: pinned.id } : {}) };
      return { account, plugin, expected, call: (client) => client.post('/installations', body) };
    }),
);
const place = fc.option(fc.integer({ min: -3, max: 3 }), { nil: undefined });
const repolicing = fc
  .tuple(at, who, fc.option(policy, { nil: undefined }), at, place, fc.option(fc.boolean(), { nil: undefined }))
  .map(([n, by, versionPolicy, v, hookOrder, required]) =>
    onInstallation(
      `change to ${versionPolicy} (${v}), order ${hookOrder}, required ${required}`,
      n,
      by,
      (one, account, scene) => {
        const pinned = versionPolicy === 'Pinned' || v % 4 === 0 ? pinOf(one.plugin, scene, v) : undefined;
        const expected = scene.model.changePolicy(account, one, { policy: versionPolicy, pinned, hookOrder, required });
        const body = { versionPolicy, pinnedVersionId: pinned?.id, hookOrder, required };
        return { expected, call: (client) => client.patch(`/installations/${one.id}`, body) };
      },
    ),
  );
const accepting = fc.tuple(at, who, at).map(([n, by, v]) =>
  onInstallation(`accept ${v}`, n, by, (one, account, { model }) => {
    const version = v % 4 > 0 && one.pending ? one.pending : pick(one.plugin.versions, v);
    const expected = model.accept(account, one, version);
    const versionId = version?.id ?? 'none';
    return { expected, call: (client) => client.post(`/installations/${one.id}/accept-update`, { versionId }) };
  }),
);
const city = fc.constantFrom('bern', 'oslo', 'rome', 'atlantis', null);
const given = fc.record({
  settings: fc.record({ city }, { requiredKeys: [] }),
  secrets: fc.record({ apiKey: fc.constantFrom('k', '', null) }, { requiredKeys: [] }),
});
const configuring = fc.tuple(at, who, given).map(([n, by, input]) =>
  onInstallation(`configure ${JSON.stringify(input)}`, n, by, (one, account, { model }) => ({
    expected: model.configure(account, one, input),
    call: (client) => client.post(`/installations/${one.id}/configure`, input),
  })),
);
const simple = fc.tuple(fc.constantFrom('pause', 'resume', 'rerun-setup', 'uninstall'), at, who).map(([what, n, by]) =>
  onInstallation(what, n, by, (one, account, { model }) => {
    if (what === 'uninstall') {
      const expected = model.uninstall(account, one);
      return { expected, call: (client) => client.delete(`/installations/${one.id}`) };
    }
    const expected =
      what === 'rerun-setup' ? model.rerun(account, one) : model.setPaused(account, one, what === 'pause');
    return { expected, call: (client) => client.post(`/installations/${one.id}/${what}`) };
  }),
);
/** The supervisor's part of an uninstall, at any later time. */
const removing = fc.constant(
  new Step('finish removals', ({ real, model }) => ({
    account: real.accounts[0] ?? '',
    expected: { status: 200 },
    call: async (client) => {
      await removeUninstalled(real, model);
      return client.get('/me');
    },
  })),
);

/** All kinds; what is wanted more often is there more often. */
export const steps = [
  ...[creating, publishing, publishing, publishing, drafting, drafting, listing, delisting, yanking, yanking, deleting],
  ...[installing, installing, repolicing, repolicing, accepting, accepting, configuring, simple, removing],
];
