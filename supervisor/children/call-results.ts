/** Results of calls to a child, without the values of the installation's secrets. */
import type { LinkResult } from '../calls/chain.ts';
import { describeArgumentFault } from '../calls/plugin-call.ts';
import type { SecretMask } from '../records/secret-mask.ts';
import type { Outcome } from './child-calls.ts';
import { ChildError } from './child-errors.ts';

export function fromOutcome(outcome: Outcome): LinkResult {
  if (outcome.outcome === 'answered') return { kind: 'answered', answer: outcome.answer };
  if (outcome.outcome === 'cancelled') return { kind: 'cancelled', reason: outcome.reason };
  if (outcome.outcome === 'invalid_arguments') {
    return { kind: 'error', message: describeArgumentFault(outcome.errors), invalidArguments: outcome.errors };
  }
  return { kind: 'error', message: outcome.message, stack: outcome.stack };
}

/** Masks what the plugin says: its answer, its reasons, and what it threw. */
export function maskResult(mask: SecretMask, result: LinkResult): LinkResult {
  if (mask.isEmpty) return result;
  if (result.kind === 'answered') return { ...result, answer: mask.mask(result.answer) };
  if (result.kind === 'cancelled') return { ...result, reason: mask.maskText(result.reason, true) };
  return {
    ...result,
    message: mask.maskText(result.message, true),
    ...(result.stack === undefined ? {} : { stack: mask.maskText(result.stack, true) }),
    ...(result.invalidArguments ? { invalidArguments: mask.mask(result.invalidArguments) } : {}),
  };
}

export function maskError(mask: SecretMask, error: ChildError): ChildError {
  const pluginStack = mask.maskText(error.pluginStack, true);
  return new ChildError(error.kind, mask.maskText(error.message, true), {
    pluginStack,
    interrupted: error.interrupted,
  });
}
