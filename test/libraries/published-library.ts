/** Publishes a use of a library through the service's own builder, and runs it in a jailed child. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Introspection } from '../../db/jobs/introspections.ts';
import { buildLocally } from '../../pack/local-build.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { ChildHandlers } from '../../supervisor/children/child.ts';
import { ChildError } from '../../supervisor/children/child-errors.ts';
import type { Jail } from '../../supervisor/jail/jail.ts';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';
import { bundleOf, callTool, testChild } from '../supervisor/children/jailed-child.ts';

/** Untrusted data: names that every object inherits. */
export const WORDS = ['constructor', '__proto__', 'hasOwnProperty', 'toString', 'valueOf', 'plain', 'plain'];
export const RECORD = '{"constructor":"a","__proto__":"b","hasOwnProperty":"c","plain":"d"}';
/** The largest libraries take seconds on a busy machine. Milliseconds. */
const RUN_MS = 20_000;

const INDEX = `import { run } from './library.js';
globalThis.base = '';
tools.run = { description: 'Runs the library', parameters: {}, handler: ({ words, record, base }) => {
  globalThis.base = base;
  return run(words, JSON.parse(record));
} };
`;

interface Run {
  readonly jail: Jail;
  /** The use of the library, bundled to one file. */
  readonly bundled: string;
  readonly capabilities?: readonly string[];
  readonly handlers?: Partial<ChildHandlers>;
  /** Where the scripted server answers. */
  readonly base?: string;
}

/** @returns the answer of `run`, or why there is none */
export async function runPublished(test: Teardown, run: Run): Promise<{ answer: unknown } | { failure: string }> {
  const folder = await temporaryFolder(test);
  const capabilities = run.capabilities ?? [];
  const lines = capabilities.length > 0 ? `capabilities:\n${capabilities.map((each) => `  - ${each}\n`).join('')}` : '';
  const files: Readonly<Record<string, string>> = {
    'readme.md': `---\nname: Library\ndescription: Uses a library\n${lines}---\nBody\n`,
    'index.ts': INDEX,
    'library.js': run.bundled,
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const listed = Object.keys(files).map((path) => ({ path, at: join(folder, path) }));
  const child = testChild(test, run.jail, run.handlers);
  const members = capabilities.length > 0 ? ['http.fetch'] : [];
  /** In the child that then runs it: a second one would take as long again. */
  const introspect = async (bundle: string, sourceName: string): Promise<Introspection> => {
    try {
      return { ok: true, ...(await child.load(bundleOf(bundle, { sourceName, members }), RUN_MS)) } as Introspection;
    } catch (error) {
      if (!(error instanceof ChildError)) throw error;
      return { ok: false, message: error.message };
    }
  };
  try {
    await buildLocally(listed, 'library', await temporaryFolder(test), { introspect });
    const outcome = await callTool(child, 'run', { words: WORDS, record: RECORD, base: run.base ?? '' }, RUN_MS);
    return outcome.outcome === 'answered' ? { answer: outcome.answer } : { failure: describeOutcome(outcome) };
  } catch (error) {
    return { failure: describeFailure(error) };
  } finally {
    await child.kill('the library was tried');
  }
}

const describeOutcome = (outcome: object): string =>
  'message' in outcome ? String(outcome.message) : JSON.stringify(outcome);

function describeFailure(error: unknown): string {
  if (!(error instanceof Problem)) return String(error instanceof Error ? error.message : error);
  const [first] = error.errors ?? [];
  return first === undefined ? error.message : `refused at publish: ${first.message}`;
}
