/** What a jailed child starts as whose owner debugs it: the same as `main.ts`, and the inspector's thread beside it. */
import { Worker } from 'node:worker_threads';
import { serve } from './program.ts';
import { lockRealm } from './realm.ts';

/** The thread's program, bundled; put in by `build-child.ts`. */
declare const INSPECTOR_RELAY: string;
/** Heap of the thread, megabytes: a snapshot passes through it in pieces. */
const THREAD_HEAP_MEGABYTES = 48;

// Before the realm is locked, so that Node makes it out of its own parts.
const relay = new Worker(INSPECTOR_RELAY, {
  eval: true,
  resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MEGABYTES },
});
relay.unref();
// A debugger's console reaches Node's own, which prints to descriptor 1: that one belongs to the connection.
Object.defineProperty(process, 'stdout', { get: () => process.stderr });
const realm = lockRealm();
// One thread was all that the grant is for.
for (const grant of ['worker', 'fs.read']) process.permission?.drop?.(grant);
serve(realm);
