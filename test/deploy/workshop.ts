/** Something of everything that Bulkhead promises to keep, made over its interfaces, and looked at again over them. */
import assert from 'node:assert/strict';
import { eventually } from '../runner/eventually.ts';
import type { Answer, CalledService } from './service-fixture.ts';

const README = `---
name: Witness
description: Writes down every event it gets
capabilities: [host.storage]
settings: { tone: { label: Tone, default: plain, required: false } }
secrets: { key: { label: Key, required: true } }
---
`;
const SLUG = 'witness';
/** The first attempt at a patient agent's event holds on until the tool lets it go, or its process ends. */
const INDEX = `
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function note(event: EventEnvelope) {
  await host.storage.set('began ' + event.id + ' ' + event.attempt, 'began ' + event.data.agentId);
  const waits = event.attempt === 1 && event.data.agentId === 'patient';
  while (waits && (await host.storage.get('let go')) === null) await pause(50);
  await host.storage.set('done ' + event.id, event.data.sessionId ?? event.type);
  host.log(event.type, { eventId: event.id });
}
interface EventEnvelope { id: string; type: string; attempt: number; data: { agentId?: string; sessionId?: string } }

events.pluginInstalled = note;
events.sessionStarted = note;
middleware.systemPrompt = async (ctx) => {
  const key = await host.secrets.get('key');
  host.log('prompted');
  return ctx.systemPrompt + ' ' + ctx.settings.tone + ' ' + key;
};
tools.seen = {
  description: 'Returns the notes, by key',
  parameters: { type: 'object' },
  handler: async () => {
    const entries = [];
    for (const key of await host.storage.list()) entries.push([key, await host.storage.get(key)]);
    return JSON.stringify(Object.fromEntries(entries));
  },
};
tools.release = {
  description: 'Lets go',
  parameters: { type: 'object' },
  handler: async () => { await host.storage.set('let go', true); return 'ok'; },
};
`;

const version = (semVer: string) => ({
  semVer,
  files: [
    { path: 'readme.md', contentText: README },
    { path: 'index.ts', contentText: INDEX },
  ],
});

interface Ids {
  readonly slug: string;
  readonly plugin: string;
  readonly installation: string;
  readonly session: string;
}
export type Facts = Readonly<Record<string, unknown>>;

/**
 * Publishes, installs, configures and uses a plugin; everything was answered with success when this resolves. Each account
 * of a service needs a slug of its own.
 */
export async function buildWorkshop(service: CalledService, slug = SLUG): Promise<Workshop> {
  const plugin = await made(service.call('POST', '/api/plugins', { slug, displayName: 'Witness' }));
  await made(service.call('POST', `/api/plugins/${plugin}/versions`, version('1.0.0')));
  const installation = await made(service.call('POST', '/api/installations', { slug, versionPolicy: 'Latest' }));
  await made(
    service.call('POST', `/api/installations/${installation}/configure`, {
      settings: { tone: 'warm' },
      secrets: { key: 'k3y' },
    }),
  );
  const session = await made(service.session('POST', '/sessions', { agentId: 'agent-1', agentName: 'Ann' }));
  const messages = [
    { role: 'user', text: 'Two rye loaves' },
    { role: 'agent', text: 'Coming up' },
  ];
  await service.session('POST', `/sessions/${session}/messages`, { messages });
  const workshop = new Workshop(service, { slug, plugin, installation, session });
  await workshop.prompt();
  await eventually(async () => (await workshop.logged('prompted')) && (await workshop.logged('pluginInstalled')));
  return workshop;
}

export class Workshop {
  readonly #service: CalledService;
  readonly #ids: Ids;

  constructor(service: CalledService, ids: Ids) {
    this.#service = service;
    this.#ids = ids;
  }

  /** Uses the same plugins and accounts with another start of the service. */
  in(service: CalledService): Workshop {
    return new Workshop(service, this.#ids);
  }

  /** Everything that was created, as it is shown now, without the momentary state of children. */
  async look(): Promise<Facts> {
    const { plugin, installation, session } = this.#ids;
    const service = this.#service;
    const { runtime: _, ...installed } = await found(service.call('GET', `/api/installations/${installation}`));
    const { items: lines } = await found(service.call('GET', `/api/plugin-logs?installationId=${installation}`));
    return {
      installed,
      plugin: await found(service.call('GET', `/api/plugins/${plugin}?includeFiles=true`)),
      session: await found(service.session('GET', `/sessions/${session}`)),
      messages: await found(service.session('GET', `/sessions/${session}/messages`)),
      lines: Object.fromEntries(lines.map((line: { id: string }) => [line.id, line])),
    };
  }

  /**
   * The hook's answer for “Be brief.”: shows that the code, the setting and the secret are there. A plugin that starts too slowly, as on a
   * busy machine after a kill, is left out of its chain: then it is asked again.
   */
  prompt(): Promise<string> {
    const body = { context: { systemPrompt: 'Be brief.', model: 'any' } };
    const path = `/sessions/${this.#ids.session}/hooks/systemPrompt`;
    return eventually(async () => {
      const { context, trace } = await found(this.#service.session('POST', path, body));
      return trace[0]?.outcome === 'changed' && context.systemPrompt;
    });
  }

  /** Whether the message stands in the log this many times: lines are written in batches, after the answer. */
  async logged(message: string, times = 1): Promise<boolean> {
    const { items } = await found(
      this.#service.call('GET', `/api/plugin-logs?installationId=${this.#ids.installation}`),
    );
    return items.filter((line: { message: string }) => line.message === message).length >= times;
  }

  /**
   * Starts sessions, of which the first one's event is being worked on, and holds on, when this resolves; the others' wait
   * behind it.
   *
   * @returns the sessions
   */
  async queueEvents(): Promise<string[]> {
    const sessions = [await made(this.#service.session('POST', '/sessions', { agentId: 'patient' }))];
    const begun = async () => Object.values(await this.seen()).includes('began patient');
    await eventually(() => begun().catch(unlessBroken));
    for (const agentId of ['b', 'c', 'd']) {
      sessions.push(await made(this.#service.session('POST', '/sessions', { agentId })));
    }
    return sessions;
  }

  /** @returns the status of the answer */
  async publish(semVer: string): Promise<number> {
    return (await this.#service.call('POST', `/api/plugins/${this.#ids.plugin}/versions`, version(semVer))).status;
  }

  /** Lets calls that are being held go on. */
  release(): Promise<unknown> {
    return this.#tool('release');
  }

  /** The notes of the plugin, by key. */
  async seen(): Promise<Readonly<Record<string, string>>> {
    return JSON.parse(await this.#tool('seen'));
  }

  async #tool(name: string): Promise<string> {
    const path = `/sessions/${this.#ids.session}/tools/${this.#ids.slug}__${name}`;
    const { content, isError } = await found(this.#service.session('POST', path, { callId: name, arguments: {} }));
    // The services that the plugin uses may be unavailable as well.
    if (isError) throw new NotNow(content[0].text);
    return content[0].text;
  }
}

/** The service says that a part of it is away. */
class NotNow extends Error {}

/** No answer, and “later”, are honest answers while something comes back. Anything else is not. */
export function unlessBroken(error: unknown): false {
  if (error instanceof NotNow || (error instanceof TypeError && error.message === 'fetch failed')) return false;
  throw error;
}

/** @returns the id of what was made */
async function made(call: Promise<Answer>): Promise<string> {
  return (await found(call)).id;
}

/** @returns the body of a success */
async function found(call: Promise<Answer>): Promise<Answer['body']> {
  const { status, body } = await call;
  if (status === 503) throw new NotNow(JSON.stringify(body));
  assert.ok(status === 200 || status === 201, `${status} ${JSON.stringify(body)}`);
  return body;
}
