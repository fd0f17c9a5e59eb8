/** Says what became of an update that was just accepted or tried again. */
import type { Installation } from './rest-types.ts';
import { toOneLine } from './terminal-text.ts';

export function describeUpdate(installation: Installation): string {
  const { slug, currentSemVer, pendingUpdate, updateUnderWay, failedUpdate } = installation;
  const now = currentSemVer ?? 'the draft';
  if (failedUpdate) return `${slug} still runs ${now}: ${toOneLine(failedUpdate.reason)}`;
  if (pendingUpdate)
    return `${slug} still runs ${now}: ${pendingUpdate.semVer} needs your consent: bulkhead accept ${slug}`;
  if (!updateUnderWay) return `${slug} now runs ${now}.`;
  const next = updateUnderWay.semVer ?? 'the draft';
  return `${slug} runs ${now} until ${next} has started. ${toOneLine(updateUnderWay.waitsFor ?? '')}`.trimEnd();
}
