/** A scenario: a situation of an agent runtime, what must hold in it, and what to change if it does not. */
import type { Guard } from './judges.ts';
import type { Scene } from './scene.ts';

export interface Scenario {
  readonly sentence: string;
  /** What the runtime's developer should do if the scenario fails. */
  readonly advice: string;
  /** @throws Mismatch with what was seen; Skipped if the scenario does not apply to the runtime */
  play(scene: Scene): Promise<void>;
}

export interface RuntimeChapter {
  readonly title: string;
  readonly guard: Guard;
  readonly scenarios: readonly Scenario[];
}

export const scenario = (sentence: string, advice: string, play: Scenario['play']): Scenario => ({
  sentence,
  advice,
  play,
});
