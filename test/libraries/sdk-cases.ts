/**
 * The vendors' own SDKs, as published. Each asks a server at `base`, which the plugin declared, and then at the vendor's own
 * address, which it did not.
 */
import type { IncomingMessage } from 'node:http';
import type { LibraryCase } from './library-cases.ts';
import { WORDS } from './published-library.ts';

export interface SdkCase extends LibraryCase {
  /** The response of the vendor's server. */
  answer(request: IncomingMessage, body: string): { readonly type?: string; readonly body: string };
  /** What `run` answers. */
  readonly expected: unknown;
}

const toEvents = (events: readonly object[]): string =>
  events
    .map((event) => `${'type' in event ? `event: ${event.type}\n` : ''}data: ${JSON.stringify(event)}\n\n`)
    .join('');
/** Rejects with the chain of causes: SDKs wrap errors. */
const REFUSAL = `const refused = async (call) => { try { await call(); return 'fine'; } catch (error) { const texts = []; for (let e = error; e; e = e.cause ?? e.original ?? e.detail) texts.push(e.message); return /is not a granted host/.test(texts.join()) ? 'refused' : texts.join(' < '); } };`;

export const sdkCases: Readonly<Record<string, SdkCase>> = {
  openai: {
    imports: `import OpenAI from 'openai';`,
    body: `${REFUSAL} const client = new OpenAI({ apiKey: 'k', baseURL: base + '/v1', maxRetries: 0 }); const ask = { model: 'm', messages: words.map((content) => ({ role: 'user', content })) };
      const whole = await client.chat.completions.create(ask); const parts = []; for await (const part of await client.chat.completions.create({ ...ask, stream: true })) parts.push(part.choices[0].delta.content);
      return [whole.choices[0].message.content, parts, await refused(() => new OpenAI({ apiKey: 'k', maxRetries: 0 }).models.list())];`,
    answer: (_request, body) => {
      const { stream, messages } = JSON.parse(body) as { stream?: boolean; messages: { content: string }[] };
      const words = messages.map(({ content }) => content);
      if (!stream) return { body: JSON.stringify({ choices: [{ message: { content: words.join() } }] }) };
      const events = words.map((content) => ({ choices: [{ delta: { content } }] }));
      return { type: 'text/event-stream', body: `${toEvents(events)}data: [DONE]\n\n` };
    },
    expected: [WORDS.join(), WORDS, 'refused'],
  },
  '@anthropic-ai/sdk': {
    imports: `import Anthropic from '@anthropic-ai/sdk';`,
    body: `${REFUSAL} const client = new Anthropic({ apiKey: 'k', baseURL: base, maxRetries: 0 }); const ask = { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: words.join() }] };
      const whole = await client.messages.create(ask); const stream = client.messages.stream(ask); const parts = []; stream.on('text', (text) => parts.push(text)); const last = await stream.finalMessage();
      return [whole.content[0].text, parts, last.content[0].text, await refused(() => new Anthropic({ apiKey: 'k', maxRetries: 0 }).messages.create(ask))];`,
    answer: (_request, body) => {
      const { stream, messages } = JSON.parse(body) as { stream?: boolean; messages: { content: string }[] };
      const message = {
        id: 'x',
        type: 'message',
        role: 'assistant',
        model: 'm',
        stop_reason: null,
        stop_sequence: null,
      };
      const usage = { input_tokens: 1, output_tokens: 1 };
      if (!stream)
        return { body: JSON.stringify({ ...message, usage, content: [{ type: 'text', text: messages[0]?.content }] }) };
      const deltas = WORDS.map((text) => ({
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'text_delta', text },
      }));
      const events = [
        { type: 'message_start', message: { ...message, usage, content: [] } },
        { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
        ...deltas,
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage },
        { type: 'message_stop' },
      ];
      return { type: 'text/event-stream', body: toEvents(events) };
    },
    expected: [WORDS.join(), WORDS, WORDS.join(''), 'refused'],
  },
  octokit: {
    imports: `import { Octokit } from 'octokit';`,
    body: `${REFUSAL} const options = { retry: { enabled: false }, throttle: { enabled: false } }; const client = new Octokit({ auth: 'k', baseUrl: base, ...options });
      const { data } = await client.rest.issues.create({ owner: 'o', repo: 'r', title: words[0], body: words.join() });
      return [data, await refused(() => new Octokit(options).rest.users.getAuthenticated())];`,
    answer: (request, body) => ({
      body: JSON.stringify({ at: request.url, by: request.headers.authorization, sent: JSON.parse(body) }),
    }),
    expected: [
      { at: '/repos/o/r/issues', by: 'token k', sent: { title: 'constructor', body: WORDS.join() } },
      'refused',
    ],
  },
  stripe: {
    imports: `import Stripe from 'stripe';`,
    body: `${REFUSAL} const { hostname, port } = new URL(base); const client = new Stripe('sk_test_x', { host: hostname, port: Number(port), protocol: 'http', maxNetworkRetries: 0, telemetry: false });
      const customer = await client.customers.create({ name: words[0], metadata: { hasOwnProperty: words[2] } });
      return [customer.sent, await refused(() => new Stripe('sk_test_x', { maxNetworkRetries: 0, telemetry: false }).customers.list())];`,
    answer: (_request, body) => ({ body: JSON.stringify({ id: 'cus_1', sent: body }) }),
    expected: ['name=constructor&metadata[hasOwnProperty]=hasOwnProperty', 'refused'],
  },
  '@slack/web-api': {
    imports: `import { Buffer } from 'buffer/'; import { WebClient } from '@slack/web-api'; globalThis.Buffer = Buffer;`,
    body: `${REFUSAL} const options = { retryConfig: { retries: 0 } }; const client = new WebClient('xoxb-k', { slackApiUrl: base + '/api/', ...options });
      const posted = await client.chat.postMessage({ channel: 'C1', text: words.join() });
      return [posted.ok, posted.sent, await refused(() => new WebClient('xoxb-k', options).auth.test())];`,
    answer: (_request, body) => ({
      body: JSON.stringify({ ok: true, sent: Object.fromEntries(new URLSearchParams(body)) }),
    }),
    expected: [true, { channel: 'C1', text: WORDS.join() }, 'refused'],
  },
};
