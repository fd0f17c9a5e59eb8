/** Replaces the running API and supervisor by processes with the code that is on disk now: both, or none. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isErrorLine } from './error-lines.ts';
import type { ServiceProcess, Successor } from './service-process.ts';

const MIGRATE = fileURLToPath(new URL('./migrate.ts', import.meta.url));

interface Replacement {
  readonly services: readonly Pick<ServiceProcess, 'startSuccessor'>[];
  /** The environment of `deploy/migrate.ts`. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** How long `/readyz` of a successor may take to become 200 after its first answer. */
  readonly readyTimeoutMs: number;
  /** Its abort ends the migration. */
  readonly signal: AbortSignal;
}

/**
 * Migrates the database, starts a successor of each service, and ends the old processes when every successor accepts connections.
 * Until then the old ones keep serving, because each release works with the tables of the next one.
 *
 * @returns the output of the migration
 * @throws Error with one sentence; the old processes continue
 */
export async function replaceServices({ services, env, readyTimeoutMs, signal }: Replacement): Promise<string> {
  const migrated = await migrateByNewCode(env, signal);
  const started = await Promise.allSettled(services.map((service) => service.startSuccessor(readyTimeoutMs)));
  const successors = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  try {
    for (const one of started) if (one.status === 'rejected') throw one.reason;
    // One after the other, so that a failure of the first withdraws the second before it has served.
    for (const successor of successors) await successor.serve();
  } catch (error) {
    await withdrawAll(successors);
    throw error;
  }
  await Promise.all(successors.map((successor) => successor.takeOver()));
  return migrated;
}

async function withdrawAll(successors: readonly Successor[]): Promise<void> {
  await Promise.all(successors.map((successor) => successor.withdraw()));
}

/** Runs the migration in a new process, because this one still has the old code in memory. */
async function migrateByNewCode(env: Replacement['env'], signal: AbortSignal): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [MIGRATE], { env: { ...env }, signal });
    return stdout.trim();
  } catch (error) {
    const lines = String((error as { stderr?: string }).stderr ?? '').split('\n');
    const reason = lines.find(isErrorLine) ?? lines.find((line) => line.trim() !== '');
    throw new Error(`The migrations failed and were rolled back: ${reason ?? (error as Error).message}`);
  }
}
