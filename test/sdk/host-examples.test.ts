/** The examples by the tests their authors would write: with `@bulkhead/sdk/testing`, in a jailed process, without a service. */
import { join } from 'node:path';
import { stop as stopEsbuild } from 'esbuild';
import t, { type Test } from 'tap';
import { openPlugin } from '../../pack/testing/testing.ts';
import type { PluginOptions } from '../../sdk/testing/testing.ts';
import { root } from '../house/source-files.ts';

// This process's own esbuild would outlive the test.
t.teardown(() => stopEsbuild());

async function open(test: Test, name: string, options?: PluginOptions) {
  const plugin = await openPlugin(join(root, 'examples', name), options);
  test.teardown(() => plugin.close());
  return plugin;
}

t.test('an example without code is built like a publish, and nothing is to be warned of', async (t) => {
  const plugin = await open(t, 'skill-pack');
  t.same(plugin.warnings, []);
});

t.test('house-style ends the prompt with the style, or leaves it alone', async (t) => {
  const plugin = await open(t, 'house-style');
  const judge = (systemPrompt: string, repeated = false) =>
    plugin.hook('middleware.systemPrompt', { systemPrompt }, { repeated });
  const run = async () => (await judge('Hi.')).context.systemPrompt;
  t.match(await run(), /^Hi\.\n\nHouse style: Write short sentences/);
  t.equal((await judge(await run(), true)).changed, false, 'a required plugin is asked again');
  plugin.configure({ style: 'Rhyme.' });
  t.equal(await run(), 'Hi.\n\nHouse style: Rhyme.');
  plugin.configure({ style: ' ' });
  t.equal((await plugin.hook('systemPrompt')).changed, false);
});

t.test('message-guard stops forbidden words and hides card numbers only', async (t) => {
  const plugin = await open(t, 'message-guard');
  const callInbound = (text: string) => plugin.hook('middleware.inboundMessage', { message: { text } });
  const readPatched = async (text: string) => (await callInbound(text)).context.message.text;
  t.equal((await callInbound('hello')).changed, false);
  t.equal(await readPatched('card 4111 1111 1111 1111, please'), 'card [card number], please');
  t.equal(await readPatched('4111-1111-1111-1111 378282246310005'), '[card number] [card number]');
  t.equal((await callInbound('order 4111 1111 1111 1112')).changed, false, 'a number that no card can have');
  plugin.configure({ redactCards: 'no', forbidden: 'x, launch ' });
  t.equal((await callInbound('4111 1111 1111 1111')).changed, false);
  t.match(await callInbound('the Launch  code'), { action: 'cancel', reason: /“launch”/ });
  plugin.configure({ forbidden: ' , ' });
  t.match(await callInbound('anything'), { action: 'continue' });
});

t.test('dice rolls within bounds, and every side', async (t) => {
  const plugin = await open(t, 'dice');
  const roll = async (args: object) => {
    const [content] = (await plugin.tool('roll', args)).content;
    return content?.type === 'text' ? content.text : '';
  };
  t.match(await roll({}), /^1d6: [1-6] = [1-6]$/);
  t.equal((await roll({ count: 100, sides: 2 })).split(' + ').length, 100);
  const seen = new Set<string | undefined>();
  for (let at = 0; at < 150; at += 1) seen.add((await roll({ sides: 6 })).at(-1));
  t.equal(seen.size, 6);
  await t.rejects(plugin.tool('roll', { sides: 0 }), { message: /tools\.roll: arguments\.sides must be >=/ });
});

t.test('summarizer calls a model, and returns its request', async (t) => {
  const usage = { inputTokens: 1, outputTokens: 1 };
  const plugin = await open(t, 'summarizer', {
    host: { llm: { complete: ({ request }) => ({ text: `of ${request.messages.length}`, model: 'm', usage }) } },
  });
  const at = '2026-01-05T09:00:00Z';
  const messages = [{ id: '1', role: 'user' as const, text: 'We bake bread.', at }];
  const { context } = await plugin.hook('compaction.summarize', { messages });
  t.match(context.summary, /of 1/);
  t.match(plugin.calls, [{ name: 'llm.complete' }]);
});

t.test('prompt-pack fills its prompts in', async (t) => {
  const plugin = await open(t, 'prompt-pack');
  t.same(plugin.warnings, []);
  t.match(await plugin.command('decide', 'rye or wheat'), /^Help me decide: rye or wheat\n/);
  t.match(await plugin.command('table', 'name, age\nAnn,7'), /^\| name \| age \|/);
});
