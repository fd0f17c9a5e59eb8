/** With what each kind of handler is called: the ambient types that authors compile against promise it. */
import type { SurfaceName, surfaces, Target } from '../sdk/contract/protocol.ts';

/** Runs a handler with the whole context of its invocation. */
export type Handler = (context: unknown) => unknown;
/** What an author assigned, of whatever arity. */
export type Assigned = (...given: unknown[]) => unknown;

/** `first` of the surfaces' rows, said again because the child takes no values from the SDK; the compiler compares. */
const FIRST: { readonly [Name in SurfaceName]: (typeof surfaces)[Name]['first'] } = {
  tools: 'arguments',
  commands: 'input',
  providers: 'request',
  'channel.receive': 'request',
  'channel.send': 'message',
  'channel.handshake': 'request',
};

/**
 * A handler as invocations run it. Hooks and events get the context; everything that is called with something gets that
 * first, and then the context without it.
 *
 * @param owner what the handler was found on, its `this`
 */
export function withSignature({ kind, name }: Target, handler: Assigned, owner: unknown): Handler {
  const surface = kind === 'channel' ? `channel.${name}` : kind;
  if (!Object.hasOwn(FIRST, surface)) return (context) => Reflect.apply(handler, owner, [context]);
  const first = FIRST[surface as SurfaceName];
  return (context) => {
    const fields = context as Record<string, unknown>;
    const given = fields[first];
    // The context is this invocation's own.
    delete fields[first];
    return Reflect.apply(handler, owner, [given, fields]);
  };
}
