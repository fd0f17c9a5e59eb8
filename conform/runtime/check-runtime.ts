/** Plays the scenarios against a runtime, and says which ones held. */
import { Mismatch, Skipped } from '../expect.ts';
import { Run } from '../run.ts';
import type { Guard } from './judges.ts';
import { runtimeChapters } from './runtime-chapters.ts';
import { RuntimeFixture, type ServiceClock } from './runtime-fixture.ts';
import type { Scenario } from './scenario.ts';
import { Scene } from './scene.ts';

export interface RuntimeCheck {
  /** The program of the runtime and its arguments. */
  readonly command: readonly string[];
  /** Address of the REST interface, such as `http://localhost:4000/api`. */
  readonly rest: string;
  /** Address of the session API. */
  readonly sessions: string;
  readonly token: string;
  /** Plays the scenarios whose line in the results, `chapter: sentence`, contains the text. */
  readonly only: string | undefined;
  /** The environment of the runtime, besides what the kit sets. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The clock of a service that runs for the check alone. Without it, the scenarios in which time passes are skipped. */
  readonly clock?: ServiceClock;
  readonly signal: AbortSignal;
  readonly onResult: (result: ScenarioResult) => void;
  /** Called with each thing that could not be removed, and why. */
  readonly onNotRemoved: (what: string) => void;
}
type ScenarioVerdict = 'held' | 'broken' | 'skipped';
export interface ScenarioResult {
  readonly chapter: string;
  readonly scenario: string;
  readonly verdict: ScenarioVerdict;
  /** The evidence of a failure, or the reason why the scenario was skipped. */
  readonly seen: string | null;
  /** Advice after a failure. */
  readonly advice: string | null;
  readonly ms: number;
}

/** Scenarios wait most of the time, and each has a session of its own. */
const SCENARIOS_AT_ONCE = 4;
const SEEN_MAX_CHARS = 600;
const REPLAYS_MAX = 2;

interface Planned {
  readonly chapter: string;
  readonly guard: Guard;
  readonly scenario: Scenario;
}

/** Installs the plugins it needs, plays the scenarios and removes what it made. @throws Error if it cannot begin */
export async function checkRuntime(check: RuntimeCheck): Promise<ScenarioResult[]> {
  const planned = selectScenarios(check.only);
  if (planned.length === 0) return [];
  const run = new Run({ rest: check.rest, sessions: check.sessions, webhooks: null }, check.token, null);
  try {
    const fixture = await RuntimeFixture.open(run, check);
    const onAbort = (): void => void fixture.killRuntimes();
    check.signal.addEventListener('abort', onAbort, { once: true });
    try {
      const results: ScenarioResult[] = [];
      let fault: string | null = null;
      for (const [guard, group] of Map.groupBy(planned, (one) => one.guard)) {
        // After one guard failed, it is not known which guards judge: later scenarios would blame the runtime.
        fault ??= await fixture.setGuard(guard).then(
          () => null,
          (error) => describePluginsFault(error),
        );
        check.signal.throwIfAborted();
        const played = fault === null ? await playGroup(fixture, group, check) : refuseGroup(group, fault, check);
        results.push(...played);
      }
      return results;
    } finally {
      check.signal.removeEventListener('abort', onAbort);
      await fixture.close();
    }
  } finally {
    for (const what of await run.close()) check.onNotRemoved(what);
  }
}

function selectScenarios(only: string | undefined): Planned[] {
  const all = runtimeChapters.flatMap(({ title, guard, scenarios }) =>
    scenarios.map((scenario) => ({ chapter: title, guard, scenario })),
  );
  if (only === undefined) return all;
  return all.filter(({ chapter, scenario }) => `${chapter}: ${scenario.sentence}`.includes(only));
}

async function playGroup(
  fixture: RuntimeFixture,
  group: readonly Planned[],
  check: RuntimeCheck,
): Promise<ScenarioResult[]> {
  const results: ScenarioResult[] = new Array(group.length);
  const queue = group.entries();
  const work = async (): Promise<void> => {
    for (const [index, planned] of queue) {
      check.signal.throwIfAborted();
      const result = await playScenario(fixture, planned);
      results[index] = result;
      check.onResult(result);
    }
  };
  await Promise.all(Array.from({ length: SCENARIOS_AT_ONCE }, work));
  return results;
}

/** Reports the scenarios of a group that cannot be played. */
function refuseGroup(group: readonly Planned[], seen: string, check: RuntimeCheck): ScenarioResult[] {
  return group.map(({ chapter, scenario }) => {
    const result = { chapter, scenario: scenario.sentence, verdict: 'broken', seen, advice: null, ms: 0 } as const;
    check.onResult(result);
    return result;
  });
}

const describePluginsFault = (error: unknown): string =>
  `the check’s own plugins do not run: ${error}`.slice(0, SEEN_MAX_CHARS);

/** Plays a scenario, again where a plugin of the kit did not run meanwhile: a busy machine is not the runtime's fault. */
async function playScenario(fixture: RuntimeFixture, planned: Planned): Promise<ScenarioResult> {
  for (let left = REPLAYS_MAX; ; left -= 1) {
    const { faults } = fixture;
    const result = await playOnce(fixture, planned);
    if (result.verdict !== 'broken' || left === 0) return result;
    try {
      await fixture.readLogs();
    } catch (error) {
      return { ...result, seen: describePluginsFault(error), advice: null };
    }
    if (fixture.faults === faults) return result;
  }
}

async function playOnce(fixture: RuntimeFixture, { chapter, scenario }: Planned): Promise<ScenarioResult> {
  const started = performance.now();
  const finish = (verdict: ScenarioVerdict, seen: string | null): ScenarioResult => ({
    chapter,
    scenario: scenario.sentence,
    verdict,
    seen: seen?.slice(0, SEEN_MAX_CHARS) ?? null,
    advice: verdict === 'broken' ? scenario.advice : null,
    ms: Math.round(performance.now() - started),
  });
  let scene: Scene | null = null;
  try {
    scene = await Scene.open(fixture);
    await scenario.play(scene);
    scene.requireFaults();
    await scene.requireQuiet();
    return finish('held', null);
  } catch (error) {
    if (error instanceof Skipped) return finish('skipped', error.message);
    return finish('broken', error instanceof Mismatch ? error.message : String(error));
  } finally {
    await scene?.close();
  }
}
