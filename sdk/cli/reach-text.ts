/** Formats what a plugin may access, one line for each capability. */
import type { Paint } from './output.ts';
import type { Reach } from './rest-types.ts';

export const formatReach = (reach: readonly Pick<Reach, 'sentence' | 'risk'>[], paint: Paint): string[] =>
  reach.map(({ sentence, risk }) => `  ${sentence}${risk === 'high' ? ` ${paint.red('(high risk)')}` : ''}`);
