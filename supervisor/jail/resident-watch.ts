/**
 * Limits resident memory without control groups. Checks every child once a second, kills one that exceeds its limit, and kills
 * the largest child of an account whose children together exceed the limit of the account. RLIMIT_DATA limits what can be
 * allocated; this limits what is in use.
 */
import type { AccountBounds } from './limiter.ts';
import type { WatchedProcess } from './watched-process.ts';

const CHECK_EVERY_MS = 1_000;

export interface ResidentWatch {
  /**
   * Watches a process until its end. Its `exited` then reports `outOfMemory` if this killed it.
   *
   * @param maxBytes limit of resident bytes, including shared pages
   */
  add(watched: WatchedProcess, maxBytes: number): void;
  /** Counts the memory of a watched process that no file backs for an account. Call it at most once. */
  assignAccount(watched: WatchedProcess, account: AccountBounds): void;
}

interface Entry {
  readonly watched: WatchedProcess;
  readonly maxBytes: number;
  account: AccountBounds | null;
  /** Whose limit was exceeded when this killed the process. */
  killedFor: 'process' | 'account' | null;
}

/**
 * Uses one timer for all its children, which runs only while there are children. An account has children in several jails, so
 * jails share a watch.
 */
export function watchResident(): ResidentWatch {
  const entries = new Map<WatchedProcess, Entry>();
  let timer: NodeJS.Timeout | null = null;
  const remove = (watched: WatchedProcess): void => {
    entries.delete(watched);
    if (entries.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
  };
  return {
    add(watched, maxBytes) {
      const entry: Entry = { watched, maxBytes, account: null, killedFor: null };
      entries.set(watched, entry);
      timer ??= setInterval(() => killOversized([...entries.values()]), CHECK_EVERY_MS).unref();
      const exited = watched.exited.then((end) => {
        remove(watched);
        if (entry.killedFor === null) return end;
        return { ...end, outOfMemory: true, accountOutOfMemory: entry.killedFor === 'account' };
      });
      Object.assign(watched, { exited });
    },
    assignAccount(watched, account) {
      const entry = entries.get(watched);
      if (entry) entry.account = account;
    },
  };
}

interface Sample {
  readonly entry: Entry;
  readonly bytes: number;
}

function killOversized(entries: readonly Entry[]): void {
  const samples: Sample[] = [];
  for (const entry of entries) {
    // The memory of a killed process is about to be free: counting it would kill others of its account.
    if (entry.killedFor !== null) continue;
    const bytes = entry.watched.rss();
    if (bytes > entry.maxBytes) kill(entry, 'process');
    else samples.push({ entry, bytes });
  }
  const byAccount = Map.groupBy(samples, ({ entry }) => entry.account?.id);
  for (const ofAccount of byAccount.values()) killLargest(ofAccount);
}

/** Kills the largest processes of an account until the others are within its limit. */
function killLargest(samples: readonly Sample[]): void {
  const maxBytes = samples[0]?.entry.account?.residentBytes;
  // Only a sum that counts shared pages for each process is known yet, which is never too low.
  if (maxBytes === undefined || sumBytes(samples) <= maxBytes) return;
  const measured = samples.map(({ entry }) => ({ entry, bytes: entry.watched.unsharedBytes() }));
  let total = sumBytes(measured);
  for (const { entry, bytes } of measured.sort((one, other) => other.bytes - one.bytes)) {
    if (total <= maxBytes) return;
    kill(entry, 'account');
    total -= bytes;
  }
}

const sumBytes = (samples: readonly Sample[]): number => samples.reduce((sum, { bytes }) => sum + bytes, 0);

function kill(entry: Entry, killedFor: 'process' | 'account'): void {
  entry.killedFor = killedFor;
  entry.watched.kill();
}
