/** Phrases and units that the generated types and the reference share. */
import { KIB, MIB, SECOND } from '../contract/limits.ts';
import type { FailureRule, HookRow, HostRow, SurfaceRow } from '../contract/rows.ts';

/** `3 s`, `2.5 s`. */
export const formatSeconds = (milliseconds: number): string => `${milliseconds / SECOND} s`;
/** `4 MiB`, `256 KiB`. */
export const formatBytes = (bytes: number): string => (bytes % MIB === 0 ? `${bytes / MIB} MiB` : `${bytes / KIB} KiB`);
/** `65,536`, the same in every locale. */
export const formatCount = (value: number): string => value.toLocaleString('en-US');

/** Describes what the result of a tool, command, provider or channel handler may have at most. Null: it returns nothing. */
export function describeResultLimit({ resultMax: { bytes, textChars, bodyChars } }: SurfaceRow): string | null {
  const parts = [
    ...(textChars ? [`the text may have at most ${formatCount(textChars)} characters`] : []),
    ...(bodyChars ? [`the body may have at most ${formatCount(bodyChars)} characters`] : []),
    ...(bytes ? [`the result may have at most ${formatBytes(bytes)}`] : []),
  ];
  return parts.length === 0 ? null : parts.join(', and ');
}

const failures: Record<FailureRule, string> = {
  skip: 'the chain continues as if the handler had returned nothing',
  cancel: 'the operation is cancelled',
  builtin: 'the built-in implementation runs and the transcript shows a notice',
};
/** Describes the consequences of a handler that throws, returns a malformed result or times out. */
export const describeFailure = (rule: FailureRule): string => failures[rule];

/** Describes the values that a hook may return, as a phrase that follows the word “Return”. */
export function describeReturn(row: HookRow): string {
  const { answers } = row;
  if (answers.kind === 'replace') {
    const otherwise = row.onFailure === 'builtin' ? 'use the built-in implementation' : 'change nothing';
    return `the new \`${answers.field}\` as a string, or nothing to ${otherwise}.`;
  }
  if (answers.patchable.length === 0) return 'nothing. This hook cannot change anything.';
  const paths = answers.patchable.map((path) => `\`${path}\``).join(', ');
  return `an object with the fields to change (${paths}), or nothing to change nothing.`;
}

/** Whether and how a hook can cancel the operation, to follow the word “Cancel”. */
export const describeCancel = (row: HookRow): string =>
  row.cancellable
    ? 'with `ctx.cancel(reason)`. The operation stops and the transcript shows the reason.'
    : 'is not possible.';

const secretRules: Record<HostRow['secrets'], string> = {
  sent: '',
  masked: ' Masks values of the plugin’s secrets.',
  refused: ' Fails if an argument contains the value of a secret.',
};
/** The capability that a host call needs, and its treatment of secrets. */
export const describeGrant = (row: HostRow): string => `${describeCapability(row)}${secretRules[row.secrets]}`;

function describeCapability(row: HostRow): string {
  if (row.capability === null) return 'Needs no capability.';
  if (row.capability === 'http') return 'Needs `host.http:<host>` for every host it connects to.';
  const full = `\`host.${row.capability}\``;
  return row.readable ? `Needs ${full} or \`host.${row.capability}:read\`.` : `Needs ${full}.`;
}
