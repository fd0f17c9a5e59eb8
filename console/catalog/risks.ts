/** Sorts capabilities by risk, and defines the colour of each risk. */
import type { components } from '../../sdk/rest/schema.d.ts';
import type { Tone } from '../shell/status-dot.tsx';

export type Reach = components['schemas']['CatalogSummary']['reach'];
export const RISK_TONES: Readonly<Record<Reach[number]['risk'], Tone>> = { high: 'bad', medium: 'fair', low: 'good' };
const RISKS = ['high', 'medium', 'low'] as const;

export const sortByRisk = (reach: Reach): Reach =>
  RISKS.flatMap((risk) => reach.filter((capability) => capability.risk === risk));
