/** `bulkhead dev`: saves the folder as the author's draft after every change, and prints its log. */
import type { Command } from '../command.ts';
import { describeConditionAndStep } from '../condition-text.ts';
import type { Context } from '../context.ts';
import { Draft, type RestoreResult } from '../dev/draft.ts';
import { DraftSaver } from '../dev/draft-saver.ts';
import { type FolderWatch, watchFolder } from '../dev/folder-watcher.ts';
import { runPlaygroundLine } from '../dev/playground.ts';
import { followLines, formatLine } from '../log-lines.ts';
import { Rest } from '../rest.ts';
import type { Installation } from '../rest-types.ts';
import { describeUpdate, describeWaitingUpdate } from '../update-text.ts';

const DEFAULT_PORT = 9229;
const PORT_MAX = 65_535;
/** A user who pressed Ctrl-C waits for it. Milliseconds. */
const RESTORE_TIMEOUT_MS = 10_000;
/** The part of it in which the version that ran before may start; the rest is for the last request. Milliseconds. */
const RESTORE_START_MS = 8_000;
/** The time in which the service must say whether an installation without an earlier version follows the draft. Milliseconds. */
const LOOK_TIMEOUT_MS = 2_000;

export const dev: Command = {
  name: 'dev',
  summary: 'Save the folder as your draft after every change, follow its log, and try it',
  args: [{ name: '[folder]', doc: 'folder with readme.md and index.ts (default: the current folder)' }],
  options: [
    { flags: '--slug <slug>', doc: 'slug of the plugin (default: from package.json or the folder’s name)' },
    { flags: '--inspect', doc: 'open the draft’s inspector for a local debugger' },
    { flags: '--inspect-port <port>', doc: `local port of the inspector (default: ${DEFAULT_PORT})` },
  ],
  examples: ['dev', 'dev plugins/weather --inspect'],
  printsItems: true,
  endsWithOutput: true,
  async run(context, args) {
    const port = args.wholeNumber('inspectPort', { from: 0, to: PORT_MAX, preset: DEFAULT_PORT });
    const draft = await Draft.open(context, args.positional[0], args.text('slug'));
    const saver = new DraftSaver(context, draft);
    const { signal } = context;
    let watch: FolderWatch | null = null;
    try {
      // Before the first save, so that no change during it is missed.
      watch = await watchFolder(draft.folder, context.outputIds, () => saver.save());
      const serving = serveDraft(context, draft, watch, args.flag('inspect') ? port : null);
      await Promise.race([waitForAbort(signal), serving, watch.failed]);
    } catch (error) {
      // Ctrl-C is the normal end of the command.
      if (!signal.aborted) throw error;
    } finally {
      await watch?.stop();
      await draft.testSession.close();
      await restoreVersion(context, draft);
    }
    return { slug: draft.slug, saves: saver.times.length, medianMs: findMedian(saver.times) };
  },
};

/** Moves the installation back to what it ran before `dev`. Prints what it runs now, also if that is the draft; never rejects. */
async function restoreVersion(context: Context, draft: Draft): Promise<void> {
  const { output } = context;
  const { slug, restoreCommand } = draft;
  const onMove = (): void =>
    // A second Ctrl-C ends the process at once, perhaps with the installation pinned to the version that ran before.
    output.printNote(`Moving ${slug} back from the draft. If you interrupt that, run \`${restoreCommand}\`.`);
  try {
    const { url, token } = await context.getRest();
    // Ctrl-C has aborted the signal of the command's own requests.
    const timeoutMs = restoreCommand === null ? LOOK_TIMEOUT_MS : RESTORE_TIMEOUT_MS;
    const rest = new Rest({ url, token, signal: AbortSignal.timeout(timeoutMs) });
    const restored = await draft.restore(rest, AbortSignal.timeout(RESTORE_START_MS), onMove);
    if (restored) output.printLine(describeRestored(slug, restored));
  } catch (error) {
    if (restoreCommand === null) return;
    const { message } = await context.explainError(error);
    output.printNote(`${slug} was not moved back from the draft: ${message} Run \`${restoreCommand}\`.`);
  }
}

function describeRestored(slug: string, { installation, outcome }: RestoreResult): string {
  if (installation === null) return `${slug} was uninstalled while \`dev\` ran.`;
  if (outcome === 'draft')
    return `${slug} keeps running the draft. To run published versions, run \`bulkhead install ${slug} --latest\`; to remove it, \`bulkhead uninstall ${slug}\`.`;
  const state = describeInstallation(installation, outcome === 'previous');
  if (outcome !== 'left') return state;
  return `${slug} keeps the policy ${installation.versionPolicy}, which was chosen while \`dev\` ran. ${state}`;
}

/** @param isPrevious whether it runs the version that it ran before `dev` */
function describeInstallation(installation: Installation, isPrevious: boolean): string {
  const { slug, currentSemVer, versionPolicy, condition } = installation;
  if (currentSemVer === null) {
    const hint =
      versionPolicy === 'Pinned' ? ' It stays on that version until you choose another policy in the console.' : '';
    return `${describeUpdate(installation)}${hint}`;
  }
  if (condition.state !== 'ready') {
    return `${slug} is at ${currentSemVer} (${versionPolicy}). Its state is ${describeConditionAndStep(installation)}`;
  }
  const version = isPrevious ? `${currentSemVer} again` : currentSemVer;
  return `${slug} runs ${version} (${versionPolicy}). ${describeWaitingUpdate(installation) ?? ''}`.trimEnd();
}

/** Saves the draft, and follows the log, the debugger and the keyboard until one of them fails. */
async function serveDraft(
  context: Context,
  draft: Draft,
  watch: FolderWatch,
  inspectPort: number | null,
): Promise<void> {
  await Promise.all([
    printLog(context, draft),
    inspectPort === null ? null : inspect(context, draft, inspectPort),
    runTypedLines(context, draft, watch),
    waitForAbort(context.signal),
  ]);
}

async function inspect(context: Context, draft: Draft, port: number): Promise<void> {
  // A server's modules take a fifth of the start of every command.
  const { openInspector } = await import('../dev/inspector.ts');
  await openInspector(context, draft, port);
}

/** Prints the lines since the command began, also those of the draft's first start. */
async function printLog(context: Context, draft: Draft): Promise<void> {
  const { output, signal } = context;
  const rest = await context.getRest();
  const filter = { installationId: await draft.waitForInstallation(signal), levels: [], sessionId: undefined };
  for await (const line of followLines(rest, filter, { after: draft.startLine, signal }))
    output.printItem(line, formatLine(line, output.paint));
}

/** Saves the draft first: a line that was piped in is meant for it. */
async function runTypedLines(context: Context, draft: Draft, watch: FolderWatch): Promise<void> {
  const { output, signal } = context;
  await watch.run();
  if (signal.aborted) return;
  output.printLine(output.paint.dim(`Watching ${draft.folder}. Type help for commands, Ctrl-C to exit.`));
  for await (const line of context.readLines()) await runPlaygroundLine(context, draft, line, watch.run);
}

const waitForAbort = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

function findMedian(times: readonly number[]): number | null {
  const sorted = [...times].sort((a, b) => a - b);
  const middle = sorted[Math.floor(sorted.length / 2)];
  return middle === undefined ? null : Math.round(middle);
}
