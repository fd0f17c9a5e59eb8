/** Defines the arguments of each kind of handler, as the ambient types for authors declare them. */
import type { SurfaceName, surfaces, Target } from '../sdk/contract/protocol.ts';

/** Runs a handler with the whole context of its invocation. */
export type Handler = (context: unknown) => unknown;
/** A function that an author assigned. */
export type Assigned = (...given: unknown[]) => unknown;

/** `first` of the surfaces' rows, repeated because the child imports only types from the SDK. The type keeps them equal. */
const FIRST: { readonly [Name in SurfaceName]: (typeof surfaces)[Name]['first'] } = {
  tools: 'arguments',
  commands: 'input',
  providers: 'request',
  'channel.receive': 'request',
  'channel.send': 'message',
  'channel.handshake': 'request',
};

/**
 * Adapts a handler to invocations. Hooks and events get the context. Other handlers get their main argument first, and then
 * the context without it.
 *
 * @param owner the handler's `this`
 */
export function withSignature({ kind, name }: Target, handler: Assigned, owner: unknown): Handler {
  const surface = kind === 'channel' ? `channel.${name}` : kind;
  if (!Object.hasOwn(FIRST, surface)) return (context) => Reflect.apply(handler, owner, [context]);
  const first = FIRST[surface as SurfaceName];
  return (context) => {
    const fields = context as Record<string, unknown>;
    const given = fields[first];
    // Deleting is safe, because each invocation has its own context.
    delete fields[first];
    return Reflect.apply(handler, owner, [given, fields]);
  };
}
