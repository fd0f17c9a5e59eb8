/** The faults that the service found in a package. */

import type { components } from '../../sdk/rest/schema.d.ts';
import { Problem } from '../rest/problem.ts';

export type Fault = NonNullable<components['schemas']['Problem']['errors']>[number];
/** A place in a package. */
export interface Place {
  readonly path: string;
  readonly line: number;
  readonly column: number;
}

export const getFaults = (error: unknown): readonly Fault[] =>
  error instanceof Problem ? (error.body.errors ?? []) : [];
