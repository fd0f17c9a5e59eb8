/** What the columns of a row mean, in words: the types and the reference say the same sentences. */
import { KIB, MIB, SECOND } from '../contract/limits.ts';
import type { FailureRule, HookRow, HostRow } from '../contract/rows.ts';

/** `3 s`, `2.5 s`. */
export const seconds = (milliseconds: number): string => `${milliseconds / SECOND} s`;
/** `4 MiB`, `256 KiB`. */
export const size = (bytes: number): string => (bytes % MIB === 0 ? `${bytes / MIB} MiB` : `${bytes / KIB} KiB`);
/** `65,536`, the same in every locale. */
export const count = (value: number): string => value.toLocaleString('en-US');

const failures: Record<FailureRule, string> = {
  skip: 'the chain goes on as if this handler had returned nothing',
  cancel: 'the operation is vetoed',
  builtin: 'the built-in way is used and the transcript shows a notice',
};
/** What happens when a handler throws, answers with something else, or is late. */
export const onFailure = (rule: FailureRule): string => failures[rule];

/** What a hook may return, to follow the word “Return”. */
export function returns(row: HookRow): string {
  const { answers } = row;
  if (answers.kind === 'replace') {
    const nothing = row.onFailure === 'builtin' ? 'leave it to the built-in way' : 'change nothing';
    return `the new \`${answers.field}\` as a string, or nothing to ${nothing}.`;
  }
  if (answers.patchable.length === 0) return 'nothing: there is nothing to change here.';
  const paths = answers.patchable.map((path) => `\`${path}\``).join(', ');
  return `nothing to change nothing, or an object with what changes (${paths}).`;
}

/** Whether and how a hook may veto. */
export const cancels = (row: HookRow): string =>
  row.cancellable
    ? 'with `ctx.cancel(reason)`, which stops the operation and shows the reason in the transcript.'
    : 'is not possible here.';

/** The capability to declare for a host call. */
export function grant(row: HostRow): string {
  if (row.capability === null) return 'Needs no capability.';
  if (row.capability === 'http') return 'Needs `host.http:<host>` for every host it connects to.';
  const full = `\`host.${row.capability}\``;
  return row.readable ? `Needs ${full} or \`host.${row.capability}:read\`.` : `Needs ${full}.`;
}
