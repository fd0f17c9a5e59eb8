/** The files generated from the rows are committed, complete, and the same on every run. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { z } from 'zod';
import { events, hooks, hostCalls, surfaces } from '../../sdk/contract/protocol.ts';
import { printGlobals } from '../../sdk/generate/globals.ts';
import { TypePrinter } from '../../sdk/generate/printer.ts';
import { printReference } from '../../sdk/generate/reference.ts';
import { amount } from '../runner/soak.ts';

const file = (name: string): URL => new URL(`../../${name}`, import.meta.url);

t.test('the committed files are what is generated', async (t) => {
  // A quick run has this as one of its checks.
  const script = fileURLToPath(file('docs/generate/generate.ts'));
  if (amount({ quick: false, soak: true }))
    await t.resolves(promisify(execFile)(process.execPath, [script, '--check']), 'all of them');
  t.equal(await readFile(file('sdk/globals.d.ts'), 'utf8'), printGlobals());
  t.equal(printReference(), printReference());
});

t.test('every row has its entry in the reference', async (t) => {
  const reference = printReference();
  for (const name of Object.keys(hooks)) t.match(reference, `### ${name}\n`);
  for (const name of Object.keys(events)) t.match(reference, `### events.${name}\n`);
  for (const name of Object.keys(surfaces)) t.match(reference, `### ${name}`);
  for (const name of Object.keys(hostCalls)) t.match(reference, `\nhost.${name}(`);
});

t.test('the reference says the limits that the host applies', async (t) => {
  const reference = printReference();
  t.notMatch(reference, /Arguments and result may have/, 'the limit of a row is that of its result');
  t.match(reference, /Stores a media file of at most 2 MiB .*The result may have at most 1 MiB\./);
  t.match(reference, '| `host.workspace` per account | 256 MiB in 10,000 files and folders; 1 MiB per file |');
  t.match(reference, '| Size of the arguments of one host call | 4 MiB of JSON, with bytes as base64 |');
  for (const limit of [
    'Budget** 60 s; the text may have at most 262,144 characters\n',
    'Budget** 120 s; the text may have at most 262,144 characters, and the result may have at most 4 MiB\n',
    'Budget** 2.5 s; the body may have at most 65,536 characters\n',
    'at most 262,144 characters of text in all, and 1,048,576 of arguments.',
    'Returns the newest messages of the session, oldest first. Default: 100.',
  ])
    t.match(reference, limit);
  t.notMatch(printGlobals(), /no process, require, import\(\), fetch/);
});

t.test('the printer names what payloads.ts names and refuses what it does not know', async (t) => {
  const printer = new TypePrinter();
  t.equal(printer.print(z.array(z.string().nullable())), 'Array<string | null>');
  t.equal(printer.print(z.object({ 'content-type': z.literal('a').optional() })), "{\n  'content-type'?: 'a';\n}");
  t.same(printer.printDeclarations(), []);
  t.throws(() => printer.print(z.date()), /Cannot print the schema kind "date"/);
});
