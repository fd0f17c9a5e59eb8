/** Arguments and answers of host calls against their rows, wherever a call is answered. */
import type { AuditOutcome } from '../../db/records/audit.ts';
import type { HostRow } from '../../sdk/contract/rows.ts';
import { HostError } from './host-call.ts';

/** How a call was refused, for the plugin and for the audit. */
export class Refusal extends HostError {
  readonly outcome: AuditOutcome;
  /** For the audit, which only the account reads; the message alone reaches the plugin. */
  readonly detail: string;
  constructor(outcome: AuditOutcome, message: string, detail: string = message) {
    super(message);
    this.outcome = outcome;
    this.detail = detail;
  }
}

/** Positional arguments by name. @throws Refusal that names the argument */
export function checkArguments(name: string, row: HostRow, given: readonly unknown[]): Record<string, unknown> {
  const params = Object.entries(row.params);
  if (given.length > params.length)
    throw new Refusal('failed', `host.${name} takes ${params.length} arguments at most`);
  const args: Record<string, unknown> = {};
  for (const [index, [param, schema]] of params.entries()) {
    // JSON has no undefined: an argument left out before a given one arrives as null.
    const value = given[index] === null && schema.safeParse(undefined).success ? undefined : given[index];
    const checked = schema.safeParse(value);
    if (!checked.success) {
      const issue = checked.error.issues[0];
      const where = [param, ...(issue?.path ?? [])].join('.');
      throw new Refusal('failed', `host.${name}: ${where}: ${issue?.message ?? 'not valid'}`);
    }
    args[param] = checked.data;
  }
  return args;
}

/** @throws Refusal where a handler answered what its row does not allow, or too much */
export function checkResult(name: string, row: HostRow, result: unknown): unknown {
  const checked = row.result.safeParse(result);
  if (!checked.success) throw new Refusal('failed', `host.${name} failed`, `bad result: ${checked.error.message}`);
  if (sizeOf(checked.data) > row.maxBytes)
    throw new Refusal('failed', `host.${name}: the answer is larger than ${row.maxBytes} bytes`);
  return checked.data;
}

function sizeOf(value: unknown): number {
  if (value === undefined || value === null) return 0;
  if (value instanceof Uint8Array) return value.byteLength;
  if (typeof value === 'string') return Buffer.byteLength(value);
  // Bytes travel as base64: counting them by their JSON would cost more than it tells.
  return Buffer.byteLength(
    JSON.stringify(value, (_key, part) => (part instanceof Uint8Array ? 'x'.repeat(part.byteLength) : part)),
  );
}
