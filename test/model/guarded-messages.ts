/** Sends a message through the hooks of each account, over its real rows, with plugins that run, fail or do not start. */
import { deepEqual } from 'node:assert/strict';
import { findOrCreateAccount } from '../../db/accounts/accounts.ts';
import { loadAccountPlugins } from '../../db/installations/account-plugins.ts';
import type { LinkResult } from '../../supervisor/calls/chain.ts';
import { runChain } from '../../supervisor/calls/chain-runner.ts';
import { indexAccountPlugins } from '../../supervisor/children/account-plugins-cache.ts';
import { unrecorded } from '../supervisor/calls/unrecorded.ts';
import type { Reality } from './reality.ts';
import { type Model, type ModelInstallation, statusOf } from './reference.ts';

const HOOK = 'middleware.systemPrompt';
const RAN: LinkResult = { kind: 'answered', answer: undefined };
/** The outcome of a plugin's call, by the plugin's behaviour or the fault that hits it. */
const FAILURES: Readonly<Record<string, LinkResult>> = {
  crashes: { kind: 'error', message: 'it ended with code 1' },
  hangs: { kind: 'timeout', message: 'late' },
  floods: { kind: 'error', message: 'it broke the protocol: a frame is too long' },
  'exceeds its memory': { kind: 'error', message: 'it exceeded its memory limit' },
  'is killed from outside': { kind: 'error', message: 'it was ended by SIGKILL' },
  'is updated to a broken version': { kind: 'answered', answer: 7 },
  'is still starting': { kind: 'unavailable', message: 'it is still starting' },
  'is asked while the supervisor is replaced': { kind: 'unavailable', message: 'the supervisor is stopping' },
  'cancels what it cannot': { kind: 'cancelled', reason: 'this hook cannot cancel' },
};
/** By the place of an installation. Every third runs, so that a chain comes to the next one. */
const RESULTS: readonly LinkResult[] = Object.values(FAILURES).flatMap((failure, index) =>
  index % 2 === 0 ? [failure] : [failure, RAN],
);

/** No message passes a required installation that its owner did not pause and that did not run. All others pass. */
export async function checkMessages(model: Model, real: Reality): Promise<void> {
  await Promise.all(real.accounts.map((account) => checkAccount(model, real, account)));
}

async function checkAccount(model: Model, real: Reality, account: string): Promise<void> {
  const { pool } = real.api;
  const { id: accountId } = await findOrCreateAccount(pool, account);
  const plugins = indexAccountPlugins(await loadAccountPlugins(pool, accountId));
  const mine = model.installations.filter((one) => one.account === account && !one.gone);
  for (let shift = 0; shift < RESULTS.length; shift += 1) {
    const resultOf = (id: string): LinkResult =>
      RESULTS[(mine.findIndex((one) => one.id === id) + shift) % RESULTS.length] ?? RAN;
    const ran = (one: ModelInstallation) => statusOf(one) === 'ready' && resultOf(one.id) === RAN;
    const stopped = mine.some((one) => one.required && !one.paused && !ran(one));
    const state = await runChain(
      {
        invoker: { invoke: async ({ installationId }) => resultOf(installationId) },
        ...unrecorded,
      },
      {
        hook: HOOK,
        session: null,
        trigger: 'user',
        context: { systemPrompt: 'a', model: 'm' },
        loadPlugins: () => plugins,
      },
    );
    const shown = { stopped: state.cancelled !== null, by: state.cancelled?.by.installationId ?? null };
    deepEqual(shown, { stopped, by: stopped ? state.trace.at(-1)?.installationId : null });
    for (const { installationId, required, outcome } of state.trace) {
      const one = mine.find(({ id }) => id === installationId);
      deepEqual([required, outcome === 'unchanged'], [one?.required, one ? ran(one) : undefined], 'the trace is true');
    }
    if (stopped) continue;
    const seen = new Set(state.trace.map(({ installationId }) => installationId));
    deepEqual(
      mine.filter((one) => one.required && !one.paused && !seen.has(one.id)),
      [],
      'each is in the trace',
    );
  }
}
