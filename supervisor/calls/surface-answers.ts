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

/** The answer of a handler, or what is wrong with it: a phrase about the handler. A command may return its text alone. */
export function readSurfaceAnswer<Name extends SurfaceKind>(
  kind: Name,
  given: unknown,
): { readonly answer: SurfaceAnswer<Name> } | { readonly fault: string } {
  const answer = kind === 'commands' && typeof given === 'string' ? { text: given } : given;
  const checked = surfaces[kind].result.safeParse(answer, { error: describeFieldFault });
  if (checked.success) return { answer: checked.data as SurfaceAnswer<Name> };
  const why = given === undefined ? 'nothing' : `no ${WANTED[kind]}: ${locateFault(checked.error)}`;
  return { fault: `it returned ${why}`.slice(0, FAULT_MAX_CHARS) };
}
