/** API and supervisor as processes that can be killed, a plugin that reports every arrival, and a vendor. */
import { fileURLToPath } from 'node:url';
import { insertChannel } from '../../db/channels/channels.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { type ForkedProcess, forkProcess } from '../fixtures/forked-process.ts';
import { freePort } from '../fixtures/free-port.ts';
import { eventually } from '../runner/eventually.ts';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';
import { openStorageFixture, type StorageFixture } from '../supervisor/supervisor-fixture.ts';
import { type Gate, openGate } from './database-gate.ts';
import type { StoppedAt } from './fail-point.ts';
import { Ledger } from './ledger.ts';
import { CAPABILITIES, REPORTING, startRecorder } from './recorder.ts';
import { Vendor } from './vendor.ts';

const MAINS = {
  api: fileURLToPath(new URL('failing-api.ts', import.meta.url)),
  supervisor: fileURLToPath(new URL('failing-supervisor.ts', import.meta.url)),
};
/** Everything that was acknowledged arrives within this time after the last fault. Milliseconds. */
const ARRIVAL_MS = 60_000;

/** Work that must stop in a process stops within this time. Milliseconds. */
const STOP_MS = 90_000;

interface StormProcess extends ForkedProcess {
  /** Waits until something is blocked at each of the steps, which were among its fail points. */
  stoppedAt(steps: readonly string[]): Promise<void>;
}

export interface StormFixture {
  readonly storage: StorageFixture;
  /** Between the database and the API, and the supervisor. */
  readonly gate: Gate;
  readonly supervisorGate: Gate;
  /** Sets the work to do at each arrival, before the plugin gets its response. */
  onArrival(work: () => void): void;
  readonly ledger: Ledger;
  /** Vendor of the account “ann”. */
  readonly vendor: Vendor;
  /** Adds a vendor of another account, with an installation and channels of its own. */
  addVendor(account: string): Promise<Vendor>;
  /** @param failPoints `name:n`, separated by commas */
  start(
    which: keyof typeof MAINS,
    failPoints?: string,
    settings?: Readonly<Record<string, string>>,
  ): Promise<StormProcess>;
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
  const ports = { PORT: String(await freePort()), SUPERVISOR_PORT: String(await freePort()) };
  const addVendor = async (account: string) =>
    new Vendor({
      ledger,
      url: `http://127.0.0.1:${ports.PORT}`,
      sessionUrl: `http://127.0.0.1:${ports.SUPERVISOR_PORT}`,
      token: await storage.issuer.issue(account, 3_600),
      ...(await installReporter(storage, account)),
    });
  const shared = { DATA_DIR: storage.dataDir, LOG_LEVEL: 'error', WRITES_PER_MINUTE: '1000000', MODELS_FILE: models };
  return {
    storage,
    gate,
    supervisorGate,
    ledger,
    vendor: await addVendor('ann'),
    addVendor,
    onArrival: (work) => {
      arrival = work;
    },
    start: async (which, failPoints = '', settings = {}) => {
      const operations = { API_OPS_PORT: String(await freePort()), SUPERVISOR_OPS_PORT: String(await freePort()) };
      const DATABASE_URL = (which === 'api' ? gate : supervisorGate).url;
      const env = { ...shared, ...ports, ...operations, DATABASE_URL, FAILPOINTS: failPoints, ...settings };
      const stopped = new Set<string>();
      const onMessage = (message: unknown): void => {
        const { stoppedAt } = message as Partial<StoppedAt>;
        if (stoppedAt !== undefined) stopped.add(stoppedAt);
      };
      const forked = await forkProcess(t, MAINS[which], env, 'SIGKILL', onMessage);
      return { ...forked, stoppedAt: (steps) => waitForStops(stopped, steps) };
    },
    arrived: () =>
      eventually(() => Promise.resolve(ledger.verdict().lost.length === 0), ARRIVAL_MS).then(
        () => undefined,
        () => undefined,
      ),
  };
}

/** Installs the plugin that reports every arrival, and connects two channels. */
async function installReporter(storage: StorageFixture, account: string) {
  const { installationId, accountId } = await storage.install({
    slug: `storm-${account}`,
    account,
    code: REPORTING,
    capabilities: CAPABILITIES,
  });
  const connect = (name: string) =>
    inTransaction(storage.pool, (tx) => insertChannel(tx, { installationId, accountId, name }));
  return { installationId, routingIds: [(await connect('a')).routingId, (await connect('b')).routingId] };
}

async function waitForStops(stopped: ReadonlySet<string>, steps: readonly string[]): Promise<void> {
  const missing = (): string[] => steps.filter((step) => !stopped.has(step));
  await eventually(() => Promise.resolve(missing().length === 0), STOP_MS).catch(() => {
    throw new Error(`nothing stopped at ${missing().join(', ')}`);
  });
}
