/** The target of the foreign lists: a whole service, with a plugin that returns its input. */
import { Account, type Answer, type RequestOptions } from '../../conform/account.ts';
import { fileList, packageOf } from '../../conform/packages.ts';
import type { CalledService } from '../deploy/service-fixture.ts';
import { eventually } from '../runner/eventually.ts';

export interface Deployment {
  readonly service: CalledService;
  readonly ann: Account;
  readonly pluginId: string;
  readonly installationId: string;
  readonly sessionId: string;
  /** Path of a channel's webhook address. */
  readonly webhookPath: string;
  /** Headers of a client of the Model Context Protocol. */
  readonly mcpHeaders: Readonly<Record<string, string>>;
}
const SLUG = 'corpus';
/** A tool that answers its arguments, a command its input, and a hook and a setting that change nothing. */
const CODE = `
  tools.echo = { description: 'Echo', parameters: { type: 'object' }, handler: (args) => JSON.stringify(args) };
  commands.echo = { description: 'Echo', handler: (input) => ({ text: input }) };
  middleware.systemPrompt = (ctx) => ctx.systemPrompt;
  middleware.inboundMessage = (ctx) => ({ message: ctx.message });
  channel.receive = () => ({ messages: [] });
`;
const SETTINGS = 'settings:\n  note:\n    label: Note\n    required: false';

export async function prepareDeployment(service: CalledService): Promise<Deployment> {
  const sessions = `http://localhost:${service.env.SUPERVISOR_PORT}`;
  const ann = new Account({ rest: `${service.url}/api`, sessions, webhooks: null }, service.token);
  const pluginId = (await ann.need(ann.post('/plugins', { slug: SLUG, displayName: 'Corpus' }), 201)).id;
  const installationId = await publishAndInstall(ann, pluginId, packageOf(CODE, { more: SETTINGS }));
  const { id: sessionId } = await ann.need(ann.session('POST', '/sessions', { agentId: 'corpora' }), 201);
  const channels = `/installations/${installationId}/channels`;
  const { webhookUrl } = await ann.need(ann.post(channels, { name: 'desk' }), 201);
  const webhookPath = new URL(webhookUrl).pathname;
  const mcpHeaders = await openMcp(ann, sessionId);
  return { service, ann, pluginId, installationId, sessionId, webhookPath, mcpHeaders };
}

async function openMcp(ann: Account, sessionId: string): Promise<Record<string, string>> {
  const headers = { accept: 'application/json, text/event-stream' };
  const clientInfo = { name: 'corpora', version: '1.0.0' };
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
  const message = { jsonrpc: '2.0', id: 0, method: 'initialize', params };
  const answer = await ann.session('POST', `/sessions/${sessionId}/mcp`, message, { headers });
  return { ...headers, 'mcp-session-id': answer.headers.get('mcp-session-id') ?? '' };
}

/** @returns the id of an installation that is ready */
export async function publishAndInstall(ann: Account, pluginId: string, content: Parameters<typeof fileList>[0]) {
  await ann.need(ann.publishFiles(pluginId, '1.0.0', fileList(content)), 201);
  const { slug } = await ann.need(ann.get(`/plugins/${pluginId}`));
  const { id } = await ann.need(ann.post('/installations', { slug, versionPolicy: 'Latest' }), 201);
  await eventually(async () => (await ann.get(`/installations/${id}`)).body.status === 'ready');
  return String(id);
}

/** Sends bytes as a body of JSON, to a path of the REST interface. */
export const postBytes = (ann: Account, path: string, bytes: Uint8Array, method = 'POST'): Promise<Answer> =>
  ann.call(method, path, undefined, asJson(bytes));

/** The same, to a path of the session API. */
export const postToSession = (ann: Account, path: string, bytes: Uint8Array, headers = {}): Promise<Answer> =>
  ann.session('POST', path, undefined, asJson(bytes, headers));

const asJson = (bytes: Uint8Array, headers: Readonly<Record<string, string>> = {}): RequestOptions => ({
  raw: new Uint8Array(bytes),
  headers: { ...headers, 'content-type': 'application/json' },
});
