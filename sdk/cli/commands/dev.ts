/** `bulkhead dev`: every save of the folder is the author's own running draft a moment later. */
import type { Command } from '../command.ts';
import type { Context } from '../context.ts';
import { Draft } from '../dev/draft.ts';
import { openInspector } from '../dev/inspector.ts';
import { play } from '../dev/playground.ts';
import { watchFolder } from '../dev/watching.ts';
import { failureOf, placed } from '../failure.ts';
import { followLines, formatLine } from '../log-lines.ts';
import type { Output } from '../output.ts';
import type { Rest } from '../rest.ts';

const DEFAULT_PORT = 9229;

export const dev: Command = {
  name: 'dev',
  summary: 'Save the folder as your draft at every change, follow its log, and try it',
  args: [{ name: '[folder]', doc: 'the folder with readme.md and index.ts; else this one' }],
  options: [
    { flags: '--slug <slug>', doc: 'the plugin’s slug; else that of package.json or the folder’s name' },
    { flags: '--inspect', doc: 'open the draft’s inspector for a debugger on this machine' },
    { flags: '--inspect-port <port>', doc: `where the debugger finds it, ${DEFAULT_PORT} if it is not said` },
  ],
  examples: ['dev', 'dev plugins/weather --inspect'],
  async run(context, given) {
    const draft = await Draft.open(context, given.args[0], given.text('slug'));
    const times: number[] = [];
    await saveOnce(context, draft, times);
    const { signal, output } = context;
    const stopWatching = await watchFolder(draft.folder, () => saveOnce(context, draft, times));
    output.say(output.paint.dim(`watching ${draft.folder}; type help to see what can be tried, Ctrl-C to end`));
    const inspectPort = given.flag('inspect') ? Number(given.text('inspectPort') ?? DEFAULT_PORT) : null;
    try {
      await Promise.race([ended(signal), alongside(context, draft, inspectPort)]);
    } catch (error) {
      // Ctrl-C is how it ends.
      if (!signal.aborted) throw error;
    } finally {
      await stopWatching();
      await draft.trials.close();
    }
    return { slug: draft.slug, saves: times.length, medianMs: median(times) };
  },
};

interface Told {
  readonly output: Output;
  readonly signal: AbortSignal;
  readonly rest: Rest;
}

/** Follows the log, the debugger and the keyboard; none of them ends it but by failing. */
async function alongside(context: Context, draft: Draft, inspectPort: number | null): Promise<void> {
  await Promise.all([
    tellLines({ output: context.output, signal: context.signal, rest: await context.rest() }, draft),
    inspectPort === null ? null : openInspector(context, draft, inspectPort),
    listen(context, draft),
    ended(context.signal),
  ]);
}

async function tellLines({ output, signal, rest }: Told, draft: Draft): Promise<void> {
  const filter = { installationId: await draft.installed(signal), levels: [], sessionId: undefined };
  for await (const line of followLines(rest, filter, { signal })) output.item(line, formatLine(line, output.paint));
}

async function listen(context: Context, draft: Draft): Promise<void> {
  for await (const line of context.lines()) await play(context, draft, line);
}

const ended = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** Saves and says how long it took, or what is wrong and where. Never rejects. */
async function saveOnce(context: Context, draft: Draft, times: number[]): Promise<void> {
  const { output } = context;
  try {
    const { warnings, leftOut, savedMs, liveMs } = await draft.save();
    times.push(liveMs);
    for (const warning of warnings) output.say(`${output.paint.yellow('warning')} ${warning}`);
    if (leftOut.length > 0) output.say(output.paint.dim(`left out, as drafts are text: ${leftOut.join(', ')}`));
    const [live, saved, started] = [liveMs, savedMs, liveMs - savedMs].map(Math.round);
    output.item(
      { saved: draft.slug, liveMs: live, savedMs: saved, warnings },
      `${output.paint.green('live')} ${draft.slug} in ${live} ms (built ${saved}, started ${started})`,
    );
  } catch (error) {
    if (context.signal.aborted) return;
    const { code, message, errors } = failureOf(error, await context.url());
    const places = errors.map(placed);
    const text = [`${output.paint.red('error')} ${message}`, ...(places.length > 1 ? places : [])].join('\n');
    output.item({ error: { code, message, errors } }, text);
  }
}

function median(times: readonly number[]): number | null {
  const sorted = [...times].sort((a, b) => a - b);
  const middle = sorted[Math.floor(sorted.length / 2)];
  return middle === undefined ? null : Math.round(middle);
}
