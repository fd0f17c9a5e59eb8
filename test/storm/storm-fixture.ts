/** API and supervisor as processes that can be killed, a plugin that reports every arrival, and a vendor. */
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { insertChannel } from '../../db/channels/channels.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { type ForkedProcess, forkProcess } from '../fixtures/forked-process.ts';
import { freePort } from '../fixtures/free-port.ts';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';
import { eventually, openStorageFixture, type StorageFixture } from '../supervisor/supervisor-fixture.ts';
import { type Gate, openGate } from './database-gate.ts';
import { Ledger } from './ledger.ts';
import { CAPABILITIES, REPORTING, startRecorder } from './recorder.ts';
import { Vendor } from './vendor.ts';

const MAINS = {
  api: fileURLToPath(new URL('failing-api.ts', import.meta.url)),
  supervisor: fileURLToPath(new URL('failing-supervisor.ts', import.meta.url)),
};
/** What was acknowledged arrives within this time of the last blow, milliseconds. */
const ARRIVAL_MS = 60_000;

export interface StormFixture {
  readonly storage: StorageFixture;
  /** Between the database and the API, and the supervisor. */
  readonly gate: Gate;
  readonly supervisorGate: Gate;
  /** What happens when something arrives, before the plugin is answered. */
  onArrival(work: () => void): void;
  readonly ledger: Ledger;
  readonly vendor: Vendor;
  /** @param failPoint `name:n`; empty: none */
  start(which: keyof typeof MAINS, failPoint?: string): Promise<ForkedProcess>;
  /** Waits, within bounds, until nothing that was acknowledged is missing. */
  arrived(): Promise<void>;
}

export async function startStormFixture(t: Teardown): Promise<StormFixture> {
  const storage = await openStorageFixture(t);
  const ledger = new Ledger(await temporaryFolder(t));
  let arrival: () => void = () => undefined;
  const models = await startRecorder(t, ledger, () => arrival());
  const gate = await openGate(t, storage.url);
  const supervisorGate = await openGate(t, storage.url);
  const { installationId, accountId } = await storage.install({
    ...{ slug: 'storm', code: REPORTING, capabilities: CAPABILITIES },
  });
  const connect = (name: string) =>
    inTransaction(storage.pool, (tx) => insertChannel(tx, { installationId, accountId, name }));
  const ports = { PORT: String(await freePort()), SUPERVISOR_PORT: String(await freePort()) };
  const vendor = new Vendor({
    ledger,
    ...{ url: `http://127.0.0.1:${ports.PORT}`, sessionUrl: `http://127.0.0.1:${ports.SUPERVISOR_PORT}` },
    routingIds: [(await connect('a')).routingId, (await connect('b')).routingId],
    token: await storage.issuer.issue('ann', 3_600),
    installationId,
  });
  const shared = { DATA_DIR: storage.dataDir, LOG_LEVEL: 'error', WRITES_PER_MINUTE: '1000000', MODELS_FILE: models };
  return {
    ...{ storage, gate, supervisorGate, ledger, vendor },
    onArrival: (work) => {
      arrival = work;
    },
    start: async (which, failPoint = '') => {
      const operations = { API_OPS_PORT: String(await freePort()), SUPERVISOR_OPS_PORT: String(await freePort()) };
      const DATABASE_URL = (which === 'api' ? gate : supervisorGate).url;
      const env = { ...shared, ...ports, ...operations, DATABASE_URL, FAILPOINT: failPoint };
      return forkProcess(t, MAINS[which], env, 'SIGKILL');
    },
    arrived: () =>
      eventually(() => Promise.resolve(ledger.verdict().lost.length === 0), ARRIVAL_MS).then(
        () => undefined,
        () => undefined,
      ),
  };
}

/** @returns the signal that ended it, once it has ended */
export async function ended({ process }: ForkedProcess): Promise<string | null> {
  if (process.signalCode === null && process.exitCode === null) await once(process, 'exit');
  return process.signalCode;
}
