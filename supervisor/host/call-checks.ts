/** Validates arguments and results of host calls against their rows. */

import { findUnstorable } from '../../db/postgres/storable-json.ts';
import type { AuditOutcome } from '../../db/records/audit.ts';
import { describeFieldFault } from '../../sdk/contract/field-faults.ts';
import type { HostRow } from '../../sdk/contract/rows.ts';
import type { SecretMask } from '../records/secret-mask.ts';
import { HostError } from './host-call.ts';

export class Refusal extends HostError {
  readonly outcome: AuditOutcome;
  /** For the audit log, which only the account can read. The plugin gets only the message. */
  readonly detail: string;
  constructor(outcome: AuditOutcome, message: string, detail: string = message) {
    super(message);
    this.outcome = outcome;
    this.detail = detail;
  }
}

/** Validates positional arguments. @returns them by name @throws Refusal that names the argument */
export function checkArguments(name: string, row: HostRow, given: readonly unknown[]): Record<string, unknown> {
  const params = Object.entries(row.params);
  if (given.length > params.length)
    throw new Refusal('failed', `host.${name} takes at most ${params.length} arguments`);
  const args: Record<string, unknown> = {};
  for (const [index, [param, schema]] of params.entries()) {
    // JSON has no undefined: an omitted argument before a present one arrives as null.
    const value = given[index] === null && schema.safeParse(undefined).success ? undefined : given[index];
    const checked = schema.safeParse(value, { error: describeFieldFault });
    if (!checked.success) {
      const [issue] = checked.error.issues;
      const where = [param, ...(issue?.path ?? [])].join('.');
      throw new Refusal('failed', `host.${name}: ${where}: ${issue?.message ?? 'is not valid'}`);
    }
    args[param] = checked.data;
  }
  const field = findUnstorable(args, (text) => text.isWellFormed());
  if (field !== null)
    throw new Refusal(
      'failed',
      `host.${name}: ${field}: must not contain lone surrogates: replace them with text.toWellFormed()`,
    );
  return args;
}

/**
 * Masks or refuses values of secrets in arguments, as the row says. Checks masked arguments again, because the name of a secret may be
 * longer than its value.
 *
 * @throws Refusal that names the argument
 */
export function admitSecrets(
  name: string,
  row: HostRow,
  mask: SecretMask,
  args: Record<string, unknown>,
): Record<string, unknown> {
  if (mask.isEmpty || row.secrets === 'sent') return args;
  const admitted: Record<string, unknown> = {};
  for (const [param, value] of Object.entries(args)) {
    if (row.secrets === 'refused' && mask.isFoundIn(value))
      throw new Refusal('failed', `host.${name}: ${param}: holds a secret, which would be stored in plain text`);
    admitted[param] = mask.mask(value);
  }
  return row.secrets === 'masked' ? checkArguments(name, row, Object.values(admitted)) : admitted;
}

/** @throws Refusal when a result does not match its row or is too large */
export function checkResult(name: string, row: HostRow, result: unknown): unknown {
  const checked = row.result.safeParse(result);
  if (!checked.success) throw new Refusal('failed', `host.${name} failed`, `bad result: ${checked.error.message}`);
  if (measureResult(checked.data) > row.maxBytes)
    throw new Refusal('failed', `host.${name}: the result is larger than ${row.maxBytes} bytes`);
  return checked.data;
}

/**
 * Measures a result as it travels: texts and byte arrays raw. `JSON.stringify` would spell each byte of a `Buffer` as a number before
 * a replacer sees it.
 */
export function measureResult(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (value instanceof Uint8Array) return value.byteLength;
  if (Array.isArray(value)) return value.reduce<number>((bytes, item) => bytes + 1 + measureResult(item), 0);
  if (typeof value !== 'object' || value === null) return String(value).length;
  return Object.entries(value).reduce(
    (bytes, [key, item]) => bytes + Buffer.byteLength(key) + 4 + measureResult(item),
    0,
  );
}
