/** Formats what a plugin may access, one line for each capability. */
import { describeCapability } from '../contract/capabilities.ts';
import { listEndingChecks } from '../contract/ending-checks.ts';
import type { Paint } from './output.ts';
import type { Installation, Reach, SecretField } from './rest-types.ts';

export const formatReach = (reach: readonly Pick<Reach, 'sentence' | 'risk'>[], paint: Paint): string[] =>
  reach.map(({ sentence, risk }) => `  ${sentence}${risk === 'high' ? ` ${paint.red('(high risk)')}` : ''}`);

/** Formats the checks that an update of a required plugin ends. Its reach has them while the update waits. */
export function formatEndingChecks({ pendingUpdate, required, reach }: Installation, paint: Paint): string[] {
  const ending = listEndingChecks(pendingUpdate, { required });
  return formatReach(
    reach.filter(({ capability }) => ending.includes(capability)),
    paint,
  );
}

/** Formats what a plugin does with the values of secrets, one line for each use. */
export const formatSecretUses = (secrets: readonly SecretField[], paint: Paint): string[] =>
  formatReach(
    secrets
      .flatMap(({ name, use }) => (use ? use.map((one) => `secrets.${name}:${one}`) : [`secrets.${name}`]))
      .map(describeCapability),
    paint,
  );
