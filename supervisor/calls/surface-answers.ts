/** Validates what the handlers of commands, providers and channels return. */
import type { z } from 'zod';
import { describeFieldFault, locateFault } from '../../sdk/contract/field-faults.ts';
import { surfaces } from '../../sdk/contract/protocol.ts';

export type SurfaceKind = 'commands' | 'providers' | 'channel.receive' | 'channel.handshake';
export type SurfaceAnswer<Name extends SurfaceKind> = z.infer<(typeof surfaces)[Name]['result']>;

const WANTED: Readonly<Record<SurfaceKind, string>> = {
  commands: 'text',
  providers: 'completion',
  'channel.receive': 'messages',
  'channel.handshake': 'answer to the vendor',
};
/** A path in a fault has names that a plugin chooses. Characters. */
const FAULT_MAX_CHARS = 500;

type CheckedAnswer<Name extends SurfaceKind> =
  | { readonly kind: 'answered'; readonly answer: SurfaceAnswer<Name> }
  | { readonly kind: 'error'; readonly message: string };

/** Checks what a handler returned. A malformed answer is an error of the plugin. A command may return its text alone. */
export function checkSurfaceAnswer<Name extends SurfaceKind>(kind: Name, given: unknown): CheckedAnswer<Name> {
  const answer = kind === 'commands' && typeof given === 'string' ? { text: given } : given;
  const checked = surfaces[kind].result.safeParse(answer, { error: describeFieldFault });
  if (checked.success) return { kind: 'answered', answer: checked.data as SurfaceAnswer<Name> };
  const why = given === undefined ? 'nothing' : `no ${WANTED[kind]}: ${locateFault(checked.error)}`;
  return { kind: 'error', message: `it returned ${why}`.slice(0, FAULT_MAX_CHARS) };
}
