/** Entry of an inspectable child: the same as `main.ts`, with the inspector's thread. */
import { Worker } from 'node:worker_threads';
import { serve } from './program.ts';
import { lockRealm } from './realm.ts';

/** The bundled program of the thread, inserted by `build-child.ts`. */
declare const INSPECTOR_RELAY: string;
/** Heap of the thread: heap snapshots pass through it in pieces. */
const THREAD_HEAP_MEGABYTES = 48;
/** Interval at which the main thread wakes for messages of the inspector. Milliseconds. */
const WAKE_EVERY_MS = 50;

// Before lockdown, because Node needs unmodified intrinsics to create a worker.
const relay = new Worker(INSPECTOR_RELAY, {
  eval: true,
  resourceLimits: { maxOldGenerationSizeMb: THREAD_HEAP_MEGABYTES },
});
relay.unref();
// Node sometimes does not wake an idle main thread for a message of the inspector, which then waits for the next event.
setInterval(() => undefined, WAKE_EVERY_MS).unref();
// A debugger's console prints through Node's console to stdout, whose descriptor carries the connection.
Object.defineProperty(process, 'stdout', { get: () => process.stderr });
const realm = lockRealm();
// Those of the worker and the network were only needed for this one thread, which keeps its own.
for (const grant of ['worker', 'net', 'fs.read']) process.permission?.drop?.(grant);
serve(realm);
