/**
 * A child program that speaks the wire itself, as a plugin could that had taken over its process: it makes whatever host
 * call it is told to, granted or not, and for whichever invocation it is told to name.
 */
import { openWire } from '../../../sandbox-child/wire.ts';
import type { Registrations } from '../../../sdk/contract/protocol.ts';

interface Told {
  readonly member: string;
  readonly args: readonly unknown[];
  /** In whose name; its own if none is said. */
  readonly invocationId?: string;
}
interface Invoke {
  readonly invocationId: string;
  readonly context: { readonly arguments: Told | { readonly hold: true } | { readonly release: true } };
}

const asked = new Map<number, number>();
let held: number | null = null;
let serial = 0;

const wire = openWire(({ id = 0, method, params, result, error }) => {
  if (method === 'load') {
    const registrations = (params as { expected: Registrations }).expected;
    wire.send({ id, result: { outcome: 'loaded', registrations, places: {} } });
  } else if (method === 'invoke') invoke(id, params as Invoke);
  else if (method === 'ping') wire.send({ id, result: null });
  else if (method === undefined) {
    const call = asked.get(id);
    if (call !== undefined) answer(call, error ? { ok: false, ...error } : { ok: true, value: result });
  }
});

function invoke(id: number, { invocationId, context: { arguments: told } }: Invoke): void {
  if ('hold' in told) held = id;
  else if ('release' in told) {
    if (held !== null) answer(held, { ok: true });
    answer(id, { ok: true });
  } else {
    serial += 1;
    asked.set(serial, id);
    const args = told.args.map((arg) => (isBytes(arg) ? new Uint8Array(arg.bytes) : arg));
    const call = { member: told.member, args, invocationId: told.invocationId ?? invocationId };
    wire.send({ id: serial, method: 'hostCall', params: call });
  }
}

/** Arguments come as JSON. */
const isBytes = (value: unknown): value is { bytes: number[] } =>
  typeof value === 'object' && value !== null && 'bytes' in value;

const asText = (_key: string, value: unknown): unknown =>
  value instanceof Uint8Array ? new TextDecoder().decode(value) : value;

function answer(id: number, said: object): void {
  wire.send({ id, result: { outcome: 'answered', answer: JSON.stringify(said, asText) } });
}

wire.send({ method: 'ready', params: { node: process.version } });
