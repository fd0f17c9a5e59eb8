/** The data of the console in its tests: a plugin that uses everything, by an author who tries tricks. */
import assert from 'node:assert/strict';
import { markFailed } from '../../db/installations/installation-runtimes.ts';
import { openPool } from '../../db/postgres/pool.ts';
import type { Answer, CalledService } from '../deploy/service-fixture.ts';
import { eventually } from '../runner/eventually.ts';

/** Right-to-left override, a terminal's escape, a script: none may do anything. */
export const TRICKS = '\u202Egnp.exe \u001b[31mred\u001b[0m <script>alert(1)</script>';

const FRONT_DESK = { slug: 'front-desk', displayName: 'Front desk' };

const README = (capabilities: string, name: string, secret: string, tones: string, setting: string) => `---
name: ${JSON.stringify(name)}
description: Answers what comes in and keeps a log of it
capabilities: [${capabilities}]
settings:
  tone: { label: Tone, default: plain, enum: [${tones}], required: false }
  sign: { label: Signature, description: Put under every answer }${setting}
secrets: { key: { label: API key, required: true }${secret} }
---
# Front desk

Answers **everything**. See [the site](https://example.com) and [a trick](javascript:alert(1)).

<script>alert('readme')</script><img src=x onerror=alert(2)>

![tracker](https://tracker.example/pixel.png)

| Word | Answer |
|---|---|
| hello | good day |
`;
const INDEX = (bell: string) => `
middleware.inboundMessage = (ctx) => {
  host.log('inbound ' + ctx.message.text, { from: ctx.message.from });
  // More than its heap holds: the process ends.
  if (ctx.message.text === 'crash') for (const kept = []; ; ) kept.push(new Array(1e6).fill(0));
  if (ctx.message.text.includes('forbidden')) ctx.cancel('that word is not allowed here');
  return { message: { text: ctx.message.text + ' (' + ctx.settings.tone + ')' } };
};
events.pluginInstalled = async () => {
  host.log.warn(${JSON.stringify(`set up ${TRICKS}`)});
  if (host.agents) await host.agents.create({ name: 'Night clerk', instructions: 'Answer at night. ' + ${JSON.stringify(TRICKS)} });
};
tools.bell = { description: '${bell}', parameters: { type: 'object' }, handler: async () => {
  await host.storage.set('rung', true);
  return 'ding';
} };
channel.receive = (request) => {
  if (request.bodyText.includes('poison')) throw new Error('it cannot be read');
  host.log('received ' + request.bodyText);
};
`;

interface PackageVariant {
  readonly name?: string;
  /** The description of its tool. */
  readonly bell?: string;
  /** A secret in addition, as YAML after a comma. */
  readonly secret?: string;
  /** A setting in addition, as YAML after a line break. */
  readonly setting?: string;
  /** The options of its setting, as YAML. Its default is plain. */
  readonly tones?: string;
  /** Code at the end of `index.ts`. */
  readonly more?: string;
}

export const packageFiles = (
  capabilities = 'host.storage',
  {
    name = FRONT_DESK.displayName,
    bell = 'Rings the bell',
    more = '',
    secret = '',
    setting = '',
    tones = 'plain, warm',
  }: PackageVariant = {},
) => [
  { path: 'readme.md', contentText: README(capabilities, name, secret, tones, setting) },
  { path: 'index.ts', contentText: INDEX(bell) + more },
];

/** Publishes version 1.0.0 of the plugin and lists it. @returns its id */
export async function publishFrontDesk(
  service: CalledService,
  capabilities = 'host.storage',
  named = FRONT_DESK,
): Promise<string> {
  const plugin = await made(service.call('POST', '/api/plugins', named));
  await publish(service, plugin, '1.0.0', capabilities, { name: named.displayName });
  await made(service.call('POST', `/api/plugins/${plugin}/listing`));
  return plugin;
}

export async function publish(
  service: CalledService,
  plugin: string,
  semVer: string,
  capabilities: string,
  variant: PackageVariant = {},
): Promise<string> {
  const files = packageFiles(capabilities, variant);
  return made(service.call('POST', `/api/plugins/${plugin}/versions`, { semVer, files }));
}

async function made(answer: Promise<Answer>): Promise<string> {
  const { status, body } = await answer;
  assert.ok(status < 300, JSON.stringify(body));
  return body.id;
}

/** Lets an installation fail as the supervisor does after five ends of its process, which take half a minute. */
export async function failInstallation(service: CalledService, id: string, reason: string): Promise<void> {
  const { DATABASE_URL = '' } = service.env as { DATABASE_URL?: string };
  const { pool, close } = openPool(DATABASE_URL, { name: 'test', connections: 1, onError: () => undefined });
  await markFailed(pool, id, reason);
  await close();
}

/** The account's one installation, as soon as it is as wished. */
export const installationThat = (service: Pick<CalledService, 'call'>, isWished: (of: Answer['body']) => boolean) =>
  eventually<Answer['body']>(async () => {
    const { body } = await service.call('GET', '/api/installations');
    return body.items.find(isWished) ?? false;
  });
