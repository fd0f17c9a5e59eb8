/** The example packages: valid as they lie there, and doing what their readme says. Their jailed run is tested end to end. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { listExamples } from '../examples/demo-packages.ts';
import { effectiveSettings, manifest } from '../sdk/manifest.ts';
import { root } from './source-files.ts';

type Handler = (first: unknown, second?: unknown) => unknown;
/** The globals that a package finds, as bare objects: enough to see what it registers. */
const globals = {
  middleware: {} as Record<string, Handler>,
  tools: {} as Record<string, { parameters: { required?: string[] }; handler: Handler }>,
  host: { log: { warn: () => undefined } },
};
Object.assign(globalThis, globals);

const folder = join(root, 'examples');
const packages = listExamples();

/** Not a literal, because the compiler would then look for the plugin globals in this project. */
const load = (name: string): Promise<unknown> => import(join(folder, name, 'index.ts'));

/** The effective settings of an example, as a context carries them. */
function settingsOf(name: string, given: Readonly<Record<string, string>> = {}): Record<string, string> {
  const [, head = ''] = readFileSync(join(folder, name, 'readme.md'), 'utf8').split('---\n');
  return effectiveSettings(manifest.parse(parse(head)), given);
}

t.test('every example has a readme with a valid head', async (t) => {
  t.ok(packages.length >= 3);
  for (const name of packages) t.ok(settingsOf(name), name);
});

t.test('house-style ends the prompt with the style, or leaves it alone', async (t) => {
  await load('house-style');
  const run = (given?: Record<string, string>) =>
    globals.middleware.systemPrompt?.({ systemPrompt: 'Hi.', settings: settingsOf('house-style', given) });
  t.match(run(), /^Hi\.\n\nHouse style: Write short sentences/);
  t.equal(run({ style: 'Rhyme.' }), 'Hi.\n\nHouse style: Rhyme.');
  t.equal(run({ style: ' ' }), undefined);
});

t.test('message-guard stops forbidden words and hides card numbers only', async (t) => {
  await load('message-guard');
  const cancel = (reason: string): never => {
    throw new Error(reason);
  };
  const run = (text: string, given?: Record<string, string>) => {
    const settings = settingsOf('message-guard', given);
    return globals.middleware.inboundMessage?.({ message: { text, from: 'ann' }, settings, cancel });
  };
  t.equal(run('hello'), undefined);
  t.same(run('card 4111 1111 1111 1111, please'), { message: { text: 'card [card number], please' } });
  t.same(run('4111-1111-1111-1111 378282246310005'), { message: { text: '[card number] [card number]' } });
  t.equal(run('order 4111 1111 1111 1112'), undefined, 'a number that no card can have');
  t.equal(run('4111 1111 1111 1111', { redactCards: 'no' }), undefined);
  t.throws(() => run('the Launch  code', { forbidden: 'x, launch ' }), { message: /“launch”/ });
  t.equal(run('anything', { forbidden: ' , ' }), undefined);
});

t.test('dice rolls within bounds, and every side', async (t) => {
  await load('dice');
  const rolls = (args: object) => String(globals.tools.roll?.handler(args));
  t.match(rolls({}), /^1d6: [1-6] = [1-6]$/);
  t.equal(rolls({ count: 100, sides: 2 }).split(' + ').length, 100);
  const seen = new Set(Array.from({ length: 300 }, () => rolls({ sides: 6 }).at(-1)));
  t.equal(seen.size, 6);
});
