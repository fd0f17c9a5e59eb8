/**
 * A child program that speaks the wire itself, as a plugin could that had taken over its process: it makes whatever host
 * call it is told to, granted or not, and for whichever invocation it is told to name.
 */
import { StdinReader, StdoutWriter } from '../../../sandbox-child/supervisor-connection.ts';
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

interface Received {
  readonly id?: number;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: { readonly value?: unknown };
  readonly error?: { readonly message: string; readonly data: { readonly code: string } };
}

const requests = new Map<number, number>();
let heldId: number | null = null;
let serial = 0;

const writer = new StdoutWriter();
const send = (message: object): void => void writer.write({ jsonrpc: '2.0', ...message });

new StdinReader().listen((received) => {
  const { id = 0, method, params, result, error } = received as Received;
  if (method === 'load') {
    const registrations = (params as { expected: Registrations }).expected;
    send({ id, result: { outcome: 'loaded', registrations, places: {}, schemaFaults: [] } });
  } else if (method === 'invoke') invoke(id, params as Invoke);
  else if (method === undefined) {
    const call = requests.get(id);
    const reply = error
      ? { ok: false, code: error.data.code, message: error.message }
      : { ok: true, value: result?.value };
    if (call !== undefined) answer(call, reply);
  }
});

function invoke(id: number, { invocationId, context: { arguments: told } }: Invoke): void {
  if ('hold' in told) heldId = id;
  else if ('release' in told) {
    if (heldId !== null) answer(heldId, { ok: true });
    answer(id, { ok: true });
  } else {
    serial += 1;
    requests.set(serial, id);
    const args = told.args.map((arg) => (isBytes(arg) ? new Uint8Array(arg.bytes) : arg));
    const call = { member: told.member, args, invocationId: told.invocationId ?? invocationId };
    send({ id: serial, method: 'hostCall', params: call });
  }
}

/** Arguments come as JSON. */
const isBytes = (value: unknown): value is { bytes: number[] } =>
  typeof value === 'object' && value !== null && 'bytes' in value;

const asText = (_key: string, value: unknown): unknown =>
  value instanceof Uint8Array ? new TextDecoder().decode(value) : value;

function answer(id: number, said: object): void {
  send({ id, result: { outcome: 'answered', answer: JSON.stringify(said, asText) } });
}

send({ method: 'ready', params: { node: process.version } });
