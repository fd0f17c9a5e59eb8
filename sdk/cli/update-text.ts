/** Says what became of an update that was just accepted or tried again. */
import { CommandError } from './failure.ts';
import type { Output } from './output.ts';
import type { Installation } from './rest-types.ts';
import { toOneLine } from './terminal-text.ts';

/** Prints it. @throws CommandError if the update failed */
export function printUpdate(output: Output, installation: Installation): void {
  const text = describeUpdate(installation);
  if (installation.failedUpdate) throw new CommandError('update_failed', text, { result: installation });
  output.printLine(text);
}

/** Says which update waits for consent, and how to give it. Null: none does. */
export const describeWaitingUpdate = ({ slug, pendingUpdate }: Installation): string | null =>
  pendingUpdate && `${pendingUpdate.semVer ?? 'the draft'} needs your consent: bulkhead accept ${slug}`;

export function describeUpdate(installation: Installation): string {
  const { slug, currentSemVer, updateUnderWay, failedUpdate } = installation;
  const now = currentSemVer ?? 'the draft';
  if (failedUpdate) {
    const name = failedUpdate.semVer ?? 'the draft';
    const reason = toOneLine(failedUpdate.reason).replace(/(?<![.!?])$/, '.');
    const again = `Run \`bulkhead retry ${slug}\` to try again, or wait for the next version.`;
    return `${slug} still runs ${now}, because ${name} did not start: ${reason} ${again}`;
  }
  const waiting = describeWaitingUpdate(installation);
  if (waiting !== null) return `${slug} still runs ${now}: ${waiting}`;
  if (!updateUnderWay) return `${slug} now runs ${now}.`;
  const next = updateUnderWay.semVer ?? 'the draft';
  return `${slug} runs ${now} until ${next} has started. ${toOneLine(updateUnderWay.waitsFor ?? '')}`.trimEnd();
}
