/**
 * One example per host call: its arguments and its result. The reference shows them, and the contract test sends them
 * through a real child. A row without an example does not compile.
 */
import type { z } from 'zod';
import { type HostCallName, hostCalls } from './protocol.ts';

type Rows = typeof hostCalls;
interface HostExample<Name extends HostCallName = HostCallName> {
  readonly args: z.input<z.ZodObject<Rows[Name]['params']>>;
  readonly result: z.input<Rows[Name]['result']>;
}

const TIMESTAMP = '2026-01-05T09:00:00.000Z';
const MESSAGE_ID = '01jq8v2m5n';
const MEDIA_ID = '5f8c0e6a17';
const HELPER = { id: 'a1', name: 'Helper', instructions: 'Answer in one sentence.', model: null };
const BYTES = new Uint8Array([104, 105]);

export const hostExamples = {
  'secrets.get': { args: { name: 'apiKey' }, result: 'k-123' },
  'secrets.verify': {
    args: {
      scheme: 'GitHub',
      headers: { 'x-hub-signature-256': 'sha256=00' },
      bodyBytes: new Uint8Array([123, 125]),
      handle: 'secret:signing:0f',
      options: { toleranceSeconds: 300 },
      receivedAt: TIMESTAMP,
    },
    result: false,
  },
  'assets.read': { args: { path: 'cities.bin' }, result: BYTES },
  'assets.readText': { args: { path: 'cities.csv' }, result: 'name,country\nOslo,NO\n' },
  'session.get': { args: {}, result: { id: 's1', agentId: 'a1', channelId: null, createdAt: TIMESTAMP } },
  'session.messages': {
    args: { limit: 20 },
    result: [{ id: 'm1', role: 'user', text: 'hello', at: TIMESTAMP }],
  },
  'session.post': { args: { text: 'The report is ready.' }, result: { id: MESSAGE_ID } },
  'session.notice': { args: { text: 'Forecast from this morning' }, result: { id: MESSAGE_ID } },
  'agents.list': { args: {}, result: [HELPER] },
  'agents.create': {
    args: { agent: { name: 'Helper', instructions: 'Answer in one sentence.' } },
    result: HELPER,
  },
  'agents.update': {
    args: { agentId: 'a1', changes: { model: 'main/small' } },
    result: { ...HELPER, model: 'main/small' },
  },
  'agents.remove': { args: { agentId: 'a1' }, result: undefined },
  'agents.send': { args: { agentId: 'a1', text: 'Please sum up the day.' }, result: { id: MESSAGE_ID } },
  'models.list': { args: {}, result: [{ id: 'main/small', name: 'Small', contextWindow: 128_000 }] },
  'llm.complete': {
    args: {
      request: { system: 'Answer in one word.', messages: [{ role: 'user', text: 'The sky is …' }], maxTokens: 5 },
    },
    result: { text: 'blue', model: 'main/small', usage: { inputTokens: 14, outputTokens: 1 } },
  },
  'workspace.list': {
    args: { path: 'notes' },
    result: [{ path: 'notes/today.md', sizeBytes: 2, updatedAt: TIMESTAMP }],
  },
  'workspace.read': { args: { path: 'notes/today.md' }, result: BYTES },
  'workspace.readText': { args: { path: 'notes/today.md' }, result: 'hi' },
  'workspace.write': { args: { path: 'notes/today.md', content: 'hi' }, result: undefined },
  'workspace.remove': { args: { path: 'notes/today.md' }, result: undefined },
  'media.put': {
    args: { content: BYTES, name: 'hi.txt' },
    result: { id: MEDIA_ID, mediaType: 'text/plain', sizeBytes: 2 },
  },
  'media.get': { args: { mediaId: MEDIA_ID }, result: { content: BYTES, mediaType: 'text/plain' } },
  'media.remove': { args: { mediaId: MEDIA_ID }, result: undefined },
  'ssh.hosts': { args: {}, result: [{ id: 'web', name: 'Web server' }] },
  'ssh.run': {
    args: { hostId: 'web', command: 'uptime -p', options: { timeoutMs: 5_000 } },
    result: { exitCode: 0, stdout: 'up 3 days\n', stderr: '' },
  },
  'storage.get': { args: { key: 'city' }, result: 'Bern' },
  'storage.set': { args: { key: 'city', value: 'Bern' }, result: undefined },
  'storage.delete': { args: { key: 'city' }, result: undefined },
  'storage.list': { args: { prefix: 'ci' }, result: ['city'] },
  'http.fetch': {
    args: { url: 'https://api.example.com/forecast', init: { method: 'POST', body: '{"city":"Bern"}' } },
    result: {
      status: 200,
      headers: { 'content-type': 'text/plain' },
      bodyText: 'hi',
      bodyBytes: BYTES,
    },
  },
} as const satisfies { readonly [Name in HostCallName]: HostExample<Name> };

/** The example's arguments in the order of the call's parameters. */
export function listExampleArguments(name: HostCallName): unknown[] {
  const args: Readonly<Record<string, unknown>> = hostExamples[name].args;
  return Object.keys(hostCalls[name].params).map((param) => args[param]);
}
