/** Says what became of an update that was just accepted or tried again. */
import type { Installation } from './rest-types.ts';
import { toOneLine } from './terminal-text.ts';

export function describeUpdate({ slug, currentSemVer, updateUnderWay, failedUpdate }: Installation): string {
  const now = currentSemVer ?? 'the draft';
  if (failedUpdate) return `${slug} still runs ${now}: ${toOneLine(failedUpdate.reason)}`;
  if (!updateUnderWay) return `${slug} now runs ${now}.`;
  const next = updateUnderWay.semVer ?? 'the draft';
  return `${slug} runs ${now} until ${next} has started. ${toOneLine(updateUnderWay.waitsFor ?? '')}`.trimEnd();
}
