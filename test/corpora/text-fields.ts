/** The text fields of both ports, each with how a text is sent and where it comes back. */
import type { Answer } from '../../conform/account.ts';
import { fileList, packageOf } from '../../conform/packages.ts';
import type { Deployment } from './deployment.ts';

export interface TextField {
  readonly name: string;
  /** Sends a text. The answer to look at, and the text that came back; undefined: the field is never shown. */
  send(text: string): Promise<{ readonly answer: Answer; readonly back?: unknown }>;
  /** Matches texts that the field refuses. Default: none. */
  readonly refuses?: readonly Refusal[];
}
interface Refusal {
  readonly what: string;
  readonly detail: RegExp;
}

const long: Refusal = { what: 'long texts', detail: /must (be|have) at most \d+ characters/ };
const empty: Refusal = { what: 'the empty text', detail: /must not be empty|at least|must state the reason/ };
const hidden: Refusal = {
  what: 'characters that do not show',
  detail: /invisible|direction|control|line break|one line/,
};
const ends: Refusal = { what: 'white space at an end', detail: /start or end with white space/ };
const other = (what: string, detail: RegExp): Refusal => ({ what, detail });

export function listTextFields(deployment: Deployment, spareId: string, spareSlug: string): readonly TextField[] {
  return [...listRestFields(deployment, spareId, spareSlug), ...listSessionFields(deployment)];
}

function listRestFields({ ann, installationId }: Deployment, spareId: string, spareSlug: string): readonly TextField[] {
  const channels = `/installations/${installationId}/channels`;
  const plugin = (field: string, refuses: readonly Refusal[]): TextField => ({
    name: `PATCH /plugins/{id}: ${field}`,
    refuses,
    async send(text) {
      const answer = await ann.patch(`/plugins/${spareId}`, { [field]: text });
      return { answer, back: (await ann.get(`/plugins/${spareId}`)).body[field] };
    },
  });
  const channel = (field: string, refuses: readonly Refusal[]): TextField => ({
    name: `POST /installations/{id}/channels: ${field}`,
    refuses,
    async send(text) {
      const answer = await ann.post(channels, { name: 'x', agentId: 'x', agentName: 'x', [field]: text });
      if (answer.status === 201) await ann.delete(`${channels}/${answer.body.id}`);
      return { answer, back: answer.body[field] };
    },
  });
  const publish = (name: string, body: (text: string) => object, what: string, detail: RegExp): TextField => ({
    name: `POST /plugins/{id}/versions: ${name}`,
    refuses: [other(what, detail)],
    send: async (text) => ({ answer: await ann.post(`/plugins/${spareId}/versions`, body(text)) }),
  });
  const path = (name: string, address: (text: string) => string): TextField => ({
    name,
    refuses: [other('all: there is none', /^Not found|^No |does not exist|names a folder|has no|^You have no/)],
    send: async (text) => ({ answer: await ann.get(address(encodeURIComponent(text))) }),
  });
  return [
    plugin('displayName', [long, empty, ends, hidden]),
    plugin('description', []),
    channel('name', [long, empty]),
    channel('agentId', [long, empty]),
    channel('agentName', [long]),
    publish('semVer', (text) => ({ semVer: text, files: [] }), 'all except versions', /./),
    publish(
      'files[].path',
      (text) => ({ semVer: '9.9.9', files: [{ path: text, contentText: '' }] }),
      'all: there is no readme.md',
      /./,
    ),
    {
      name: 'POST /installations/{id}/configure: settings',
      refuses: [],
      async send(text) {
        const answer = await ann.post(`/installations/${installationId}/configure`, { settings: { note: text } });
        const { body } = await ann.get(`/installations/${installationId}`);
        return { answer, back: body.settings.note };
      },
    },
    {
      name: 'POST /operator/plugins/{slug}/block: reason',
      refuses: [empty],
      async send(text) {
        const answer = await ann.post(`/operator/plugins/${spareSlug}/block`, { reason: text });
        const { body } = await ann.get(`/plugins/${spareId}`);
        return { answer, back: body.blockedReason };
      },
    },
    {
      name: 'GET /marketplace: q',
      send: async (text) => ({ answer: await ann.get(`/marketplace?q=${encodeURIComponent(text)}`) }),
      refuses: [long],
    },
    {
      name: 'POST /sign-in: token',
      refuses: [other('all', /./)],
      send: async (token) => ({ answer: await ann.post('/sign-in', { token }) }),
    },
    path('GET /marketplace/{slug}', (text) => `/marketplace/x${text}`),
    path('GET /installations/{id}', (text) => `/installations/x${text}`),
  ];
}

function listSessionFields({ ann, sessionId }: Deployment): readonly TextField[] {
  const session = `/sessions/${sessionId}`;
  const start = (field: string): TextField => ({
    name: `POST /sessions: ${field}`,
    refuses: [long, empty],
    async send(text) {
      const answer = await ann.session('POST', '/sessions', { agentId: 'x', agentName: 'x', [field]: text });
      if (answer.status === 201) await ann.session('DELETE', `/sessions/${answer.body.id}`);
      return { answer, back: answer.body[field] };
    },
  });
  const message = (field: string, given: (text: string) => object, read: (message: Message) => unknown): TextField => ({
    name: `POST /sessions/{id}/messages: ${field}`,
    async send(text) {
      const body = { messages: [{ role: 'user', text: 'x', ...given(text) }] };
      const answer = await ann.session('POST', `${session}/messages`, body);
      return { answer, back: answer.status === 200 ? read(answer.body.items[0]) : undefined };
    },
  });
  const hook = (
    name: string,
    field: string,
    context: (text: string) => object,
    read: (context: Context) => unknown,
  ): TextField => ({
    name: `POST …/hooks/${name}: ${field}`,
    refuses: field === 'model' ? [long] : [],
    async send(text) {
      const answer = await ann.session('POST', `${session}/hooks/${name}`, { context: context(text) });
      return { answer, back: answer.status === 200 ? read(answer.body.context) : undefined };
    },
  });
  const inbound = (given: (text: string) => object) => (text: string) => ({
    message: { id: 'x', from: 'x', text: 'x', ...given(text) },
  });
  const attachment = (text: string) => ({ attachments: [{ name: text, mediaType: 'text/plain' }] });
  return [
    start('agentId'),
    start('agentName'),
    message(
      'text',
      (text) => ({ text }),
      ({ text }) => text,
    ),
    message(
      'data, value',
      (text) => ({ data: { a: [text] } }),
      ({ data }) => data.a[0],
    ),
    message(
      'data, name',
      (text) => ({ data: { [text]: 1 } }),
      ({ data }) => Object.keys(data)[0],
    ),
    hook(
      'systemPrompt',
      'systemPrompt',
      (systemPrompt) => ({ systemPrompt }),
      ({ systemPrompt }) => systemPrompt,
    ),
    hook(
      'systemPrompt',
      'model',
      (model) => ({ systemPrompt: 'x', model }),
      ({ model }) => model,
    ),
    hook(
      'inboundMessage',
      'text',
      inbound((text) => ({ text })),
      ({ message }) => message.text,
    ),
    hook(
      'inboundMessage',
      'from',
      inbound((from) => ({ from })),
      ({ message }) => message.from,
    ),
    hook('inboundMessage', 'attachments[].name', inbound(attachment), ({ message }) => message.attachments[0].name),
    {
      name: 'POST …/tools/{name}: arguments, value',
      async send(text) {
        const answer = await ann.session('POST', `${session}/tools/corpus__echo`, { arguments: { a: text } });
        return { answer, back: JSON.parse(answer.body.content[0].text).a };
      },
    },
    {
      name: 'POST …/tools/{name}: arguments, name',
      async send(text) {
        const answer = await ann.session('POST', `${session}/tools/corpus__echo`, { arguments: { [text]: 1 } });
        return { answer, back: Object.keys(JSON.parse(answer.body.content[0].text))[0] };
      },
    },
    {
      name: 'POST …/commands/{name}: input',
      async send(input) {
        const answer = await ann.session('POST', `${session}/commands/corpus__echo`, { input });
        return { answer, back: answer.body.text };
      },
    },
  ];
}
// biome-ignore lint/suspicious/noExplicitAny: the answers' own shapes
type Message = any;
// biome-ignore lint/suspicious/noExplicitAny: the answers' own shapes
type Context = any;

/** All texts as files of one package. @returns the paths of those that come back otherwise */
export async function findChangedFiles(
  { ann }: Deployment,
  pluginId: string,
  texts: readonly string[],
): Promise<string[]> {
  const asset = (at: number) => `assets/${at}.txt`;
  const assets = texts.map((contentText, at) => ({ path: asset(at), contentText }));
  const files = [...fileList(packageOf()), ...assets];
  const version = await ann.need(ann.post(`/plugins/${pluginId}/versions`, { semVer: '2.0.0', files }), 201);
  const { items } = await ann.need(ann.get(`/plugins/${pluginId}/versions/${version.id}/files`));
  const found = new Map(
    items.map(({ path, contentText }: { path: string; contentText: string }) => [path, contentText]),
  );
  return texts.flatMap((text, at) => (found.get(asset(at)) === text ? [] : [asset(at)]));
}

export interface FieldResult {
  readonly refused: ReadonlySet<string>;
  /** Changed texts, answers of 500 and more, and refusals that no reason names. */
  readonly faults: readonly string[];
}

/** Sends texts to a field, one after another. */
export async function tryField(field: TextField, texts: readonly string[]): Promise<FieldResult> {
  const refused = new Set<string>();
  const faults: string[] = [];
  for (const text of texts) {
    const { answer, back } = await field.send(text);
    const { status, body } = answer;
    const shown = JSON.stringify(text).slice(0, 100);
    if (status < 400) {
      if (back !== undefined && back !== text) faults.push(`${shown} comes back as ${JSON.stringify(back)}`);
      continue;
    }
    const reason = field.refuses?.find(({ detail }) => detail.test(body.detail));
    if (status >= 500 || !reason) faults.push(`${shown}: ${status} ${body.detail}`);
    else refused.add(reason.what);
  }
  return { refused, faults };
}
