/** Keeps the embedded PostgreSQL running. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type EmbeddedPostgres, startEmbedded } from '../db/postgres/embedded.ts';
import { computeBackoff, LONG_RUN_MS } from './backoff.ts';

/** API and supervisor, and their successors while they are replaced. */
const PROCESSES = 4;
/** Connections of a process outside its pool, such as the one that listens. */
const BESIDE_POOL = 2;
/** Connections for operators' commands. */
const FOR_COMMANDS = 20;

interface KeptDatabase {
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * Starts PostgreSQL, and restarts it on the same port whenever it ends. API and supervisor then connect again.
 *
 * @param poolConnections of the pool of each process
 * @param onNotice receives one sentence about each event
 */
export async function keepDatabase(
  dataDir: string,
  poolConnections: number,
  onNotice: (sentence: string) => void,
): Promise<KeptDatabase> {
  const connections = PROCESSES * (poolConnections + BESIDE_POOL) + FOR_COMMANDS;
  const postgres = await startEmbedded({ dataDir, connections });
  const stopping = new AbortController();
  let restarting: Promise<void> = Promise.resolve();
  const restart = (): Promise<void> => {
    restarting = postgres.restart().then(
      () => onNotice('PostgreSQL is running again.'),
      (error: Error) => onNotice(error.message),
    );
    return restarting;
  };
  const watch = restartForever(postgres, restart, stopping.signal, onNotice);
  return {
    url: postgres.url,
    async stop() {
      stopping.abort();
      await restarting;
      await postgres.stop();
      await watch;
    },
  };
}

async function restartForever(
  postgres: EmbeddedPostgres,
  restart: () => Promise<void>,
  signal: AbortSignal,
  onNotice: (sentence: string) => void,
): Promise<void> {
  for (let failures = 0; ; ) {
    const began = performance.now();
    await postgres.ended();
    if (signal.aborted) return;
    failures = performance.now() - began > LONG_RUN_MS ? 0 : failures + 1;
    const delay = computeBackoff(failures);
    onNotice(`PostgreSQL ended. Restarting it in ${delay} ms.`);
    await sleep(delay, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    await restart();
  }
}
