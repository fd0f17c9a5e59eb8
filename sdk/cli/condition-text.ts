/** Says in which state an installation is, and what its user can do next. */
import type { Installation } from './rest-types.ts';
import { toOneLine } from './terminal-text.ts';

export const describeCondition = ({ condition: { state, cause } }: Installation): string =>
  `${state.replaceAll('_', ' ')}${cause === null ? '' : `: ${toOneLine(cause)}`}`;

/** The next step as a command where there is one. */
export function describeNextStep({ slug, condition: { action, nextStep } }: Installation): string | null {
  if (action === 'retry_update') return `${nextStep} bulkhead retry ${slug}`;
  if (action === 'resume') return `${nextStep} bulkhead resume ${slug}`;
  if (action === 'restart') return `${nextStep} bulkhead restart ${slug}`;
  if (action === 'configure') return `${nextStep} bulkhead configure ${slug} --help`;
  return nextStep;
}

/** The state with its cause and the next step, as the end of a sentence. */
export const describeConditionAndStep = (installation: Installation): string =>
  `${describeCondition(installation)} ${describeNextStep(installation) ?? ''}`.trimEnd();
