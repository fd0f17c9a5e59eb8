/** Installs a plugin that declares a secret for verifying webhooks, and calls a tool that tries what its handle can do. */
import { createHmac } from 'node:crypto';
import { expect } from '../expect.ts';
import { packageOf } from '../packages.ts';
import type { InstalledPlugin, Run } from '../run.ts';

const SECRET = 'conform-handled-value';
const CODE = `
tools.check = {
  description: 'Tries the uses of the handle of a secret',
  parameters: { type: 'object' },
  handler: async ({ value, text, signature }) => {
    const handle = await host.secrets.get('key');
    const signed = (body) => ({ headers: { 'x-hub-signature-256': signature }, bodyBytes: new TextEncoder().encode(body) });
    return {
      isText: typeof handle === 'string',
      isValue: handle === value,
      holdsValue: String(handle).includes(value),
      isGenuine: await webhooks.verifyGitHub(signed(text), handle),
      isForgedGenuine: await webhooks.verifyGitHub(signed(text + '!'), handle),
    };
  },
};
`;

export function installHandled(run: Run): Promise<InstalledPlugin> {
  return run.once('handled', async () => {
    const more = 'secrets: { key: { label: Key, use: [webhooks] } }';
    const plugin = await run.install('handled', packageOf(CODE, { more }));
    await run.own.need(run.own.post(`/installations/${plugin.installationId}/configure`, { secrets: { key: SECRET } }));
    return plugin;
  });
}

/** A text and its signature with the secret, as GitHub signs. */
export function signedText() {
  const text = '{"action":"opened"}';
  const signature = `sha256=${createHmac('sha256', SECRET).update(text).digest('hex')}`;
  return { value: SECRET, args: { text, signature } };
}

// biome-ignore lint/suspicious/noExplicitAny: what the handler returned
export async function callHandled(run: Run, value: string, args: object): Promise<any> {
  const { slug } = await installHandled(run);
  const path = `/sessions/${await run.session()}/tools/${slug}__check`;
  const { status, body } = await run.own.session('POST', path, { arguments: { ...args, value } });
  expect({ status, body }, { status: 200, body: { isError: false } });
  return JSON.parse(body.content[0].text);
}
