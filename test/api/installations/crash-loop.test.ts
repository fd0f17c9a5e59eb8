/** A plugin that crashes again and again, as its user sees it through the REST interface: failed, why, until when, and well again. */

import { pino } from 'pino';
import t, { type Test } from 'tap';
import { findOrCreateAccount, setOperator } from '../../../db/accounts/accounts.ts';
import { openVerifier } from '../../../service/identity/tokens.ts';
import { openSandbox } from '../../../supervisor/jail/sandbox.ts';
import { startSupervisor } from '../../../supervisor/supervisor.ts';
import { childPrograms } from '../../runner/child-program.ts';
import { eventually } from '../../runner/eventually.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { defaultOptions } from '../../supervisor/default-options.ts';
import { EXHAUST_MEMORY } from '../../supervisor/supervisor-fixture.ts';
import { type ApiFixture, type Client, startApiFixture } from '../api-fixture.ts';
import { fileList, MINIMAL } from '../package/packages.ts';

/** The pause after the last exit doubles to a minute, give or take a fifth. */
const LONGEST_PAUSE_MS = 75_000;
const TEN_MINUTES_MS = 600_000;
/** Less than filling the heap takes of the processor, milliseconds. */
const BUSY_MS = 50;
/** It runs out of memory, or on a slow machine out of time first. */
const REASON = /memory|took longer/;
/** Ends its process whenever the prompt says so. */
const CRASHER = `middleware.systemPrompt = (ctx) => {
  if (ctx.systemPrompt === 'crash') { ${EXHAUST_MEMORY} }
  return ctx.systemPrompt + ' Be kind.';
};
`;

/** A supervisor beside the API, whose restarts go by a clock of the test's. */
async function superviseBy(t: Test, api: ApiFixture, now: () => number) {
  const sandbox = await openSandbox({ mode: 'auto', directory: await temporaryFolder(t), ...(await childPrograms()) });
  const { blobs, keys } = api.services;
  const verifier = await openVerifier({ DATA_DIR: api.dataDir, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined });
  const supervisor = await startSupervisor({
    ...defaultOptions,
    pool: api.pool,
    dataDir: api.dataDir,
    blobs,
    keys,
    verifier,
    sandbox,
    now,
    logger: pino({ level: 'silent' }),
    childrenMax: 10,
  });
  t.teardown(() => supervisor.stop());
  return supervisor;
}

async function installed(who: Client): Promise<string> {
  const { id } = (await who.post('/plugins', { slug: 'crasher', displayName: 'Crasher' })).body;
  const files = fileList({ ...MINIMAL, 'index.ts': CRASHER });
  const published = await who.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files });
  if (published.status !== 201) throw new Error(JSON.stringify(published.body));
  return (await who.post('/installations', { slug: 'crasher' })).body.id;
}

t.test('a crash loop is failed with its reason, tried once after ten minutes, and well after a restart', async (t) => {
  const api = await startApiFixture(t);
  const ann = await api.user('ann');
  let ahead = 0;
  const supervisor = await superviseBy(t, api, () => Date.now() + ahead);
  const id = await installed(ann);
  const headers = { authorization: `Bearer ${ann.token}` };
  const post = async (url: string, payload: object) =>
    (await supervisor.app.inject({ method: 'POST', url, headers, payload })).json();
  const session = await post('/sessions', { agentId: 'a' });
  /** Repeats a call that the plugin's process did not start in time for, as on a busy machine. */
  const callHook = async (systemPrompt: string): Promise<{ outcome: string; prompt: string }> => {
    const { trace, context } = await post(`/sessions/${session.id}/hooks/systemPrompt`, {
      context: { systemPrompt, model: 'm' },
    });
    const [{ outcome, reason }] = trace;
    return reason === 'it is still starting' ? callHook(systemPrompt) : { outcome, prompt: context.systemPrompt };
  };
  const shown = async () => (await ann.get(`/installations/${id}`)).body;
  const until = (status: string) => eventually(async () => (await shown()).status === status);
  const exits = async (): Promise<number> => (await shown()).runtime.restarts;

  t.equal((await callHook('Hello.')).prompt, 'Hello. Be kind.', 'it works');
  for (let exit = 1; exit <= 5; exit += 1) {
    await callHook('crash');
    await eventually(async () => (await exits()) === exit);
    if (exit === 1)
      t.match(await shown(), {
        status: 'ready',
        condition: { state: /restarting|ready/ },
        runtime: { state: /backoff|stopped/, lastExit: { reason: REASON } },
      });
    if (exit < 5) ahead += LONGEST_PAUSE_MS;
  }
  await until('failed');
  const failed = await shown();
  t.match(failed, {
    statusReason: REASON,
    condition: { state: 'failed', cause: REASON, nextStep: /restart it/, action: 'restart' },
    runtime: { state: 'failed', restarts: 5, lastExit: { reason: REASON } },
  });
  t.match(failed.runtime.lastExit.at, /^\d{4}-\d\d-\d\dT/);
  t.equal((await callHook('Hello.')).outcome, 'skipped_unavailable', 'and is not started');

  await setOperator(api.pool, (await findOrCreateAccount(api.pool, 'olga')).id, true);
  const olga = await api.user('olga');
  const costs = async () => (await olga.get('/operator/plugins?search=crasher')).body.plugins[0];
  await eventually(async () => (await costs()).restarts === 5);
  t.ok((await costs()).processorMs > 5 * BUSY_MS, 'what died between two samples is counted');

  await supervisor.logs.flush();
  const lines = (await ann.get(`/plugin-logs?installationId=${id}&levels=error`)).body.items;
  const notices = lines.filter((line: { message: string }) =>
    line.message.startsWith('It failed too often and is stopped'),
  );
  t.match(notices, [{ source: 'system', message: REASON }], 'said once');
  const ends = lines.filter(({ message }: { message: string }) =>
    /^(The plugin's process ended|It does not start)/.test(message),
  );
  t.equal(ends.length, 5, 'each end has its line');

  ahead += TEN_MINUTES_MS;
  await callHook('crash');
  await eventually(async () => (await exits()) === 6);
  t.match(await shown(), { status: 'failed', runtime: { state: 'failed' } }, 'a trial that crashes opens it again');
  t.equal((await callHook('Hello.')).outcome, 'skipped_unavailable');

  t.match(await ann.post(`/installations/${id}/restart`), { status: 200, body: { status: 'ready' } });
  await eventually(async () => (await shown()).condition.state === 'ready');
  t.equal((await callHook('Hello.')).prompt, 'Hello. Be kind.', 'restarted by its user, it serves without waiting');
  await until('ready');
  await eventually(async () => (await shown()).runtime.state === 'running');
  t.match(await shown(), { statusReason: null, condition: { state: 'ready', cause: null } });
  await ann.post(`/installations/${id}/pause`);
  t.match(await ann.post(`/installations/${id}/restart`), {
    status: 409,
    body: { code: 'not_running', detail: /paused/ },
  });
});
