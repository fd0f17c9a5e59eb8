/** One situation of an agent, what must hold in it, and what to do where it does not. */
import type { Guard } from './judges.ts';
import type { Scene } from './scene.ts';

export interface Scenario {
  readonly sentence: string;
  /** Advice to the developer of the runtime. */
  readonly advice: string;
  /** @throws Mismatch with what was seen; Skipped where it does not apply to the runtime */
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
