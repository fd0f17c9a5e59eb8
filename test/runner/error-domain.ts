/**
 * Which test an error belongs to that no promise or callback handles. It stands in for tap's `async-hook-domain`, whose hooks
 * see every promise and resource of the process: that took a sixth of a test file's processor time.
 */
import { AsyncLocalStorage, AsyncResource, executionAsyncResource } from 'node:async_hooks';
import { registerHooks } from 'node:module';

/** tap imports it by this name. */
const REPLACED = 'async-hook-domain';
const current = new AsyncLocalStorage<Domain>();
/** The domains in use, oldest first. The first is the whole run's, which also gets errors outside tests. */
const live = new Set<Domain>();

type ErrorHandler = (error: unknown, origin: string) => void;

/** tap makes one for each test, inside the test's own `AsyncResource`, and runs the test in there. */
export class Domain {
  readonly onerror: ErrorHandler;
  readonly #parent = current.getStore();

  constructor(onerror: ErrorHandler) {
    this.onerror = onerror;
    const resource = executionAsyncResource();
    if (resource instanceof AsyncResource) enterWith(resource, this);
    if (live.size === 0) listen();
    live.add(this);
  }

  destroy(): void {
    live.delete(this);
    if (live.size === 0) stopListening();
  }

  /** Errors of a test that has ended are its parent's. */
  static find(): Domain | undefined {
    let found = current.getStore();
    while (found && !live.has(found)) found = found.#parent;
    return found ?? live.values().next().value;
  }
}

/** Lets what runs in the resource from now on find the domain. */
function enterWith(resource: AsyncResource, domain: Domain): void {
  const run = resource.runInAsyncScope.bind(resource) as AsyncResource['runInAsyncScope'];
  resource.runInAsyncScope = (work, thisArg, ...args) =>
    run(() => current.run(domain, () => Reflect.apply(work, thisArg, args)));
}

const emit = process.emit;

function listen(): void {
  process.on('uncaughtExceptionMonitor', handleError);
  process.emit = handleRejection as typeof emit;
}

function stopListening(): void {
  process.removeListener('uncaughtExceptionMonitor', handleError);
  process.emit = emit;
}

/** A test may handle errors itself. */
const isHandled = (): boolean =>
  process.hasUncaughtExceptionCaptureCallback() || process.listenerCount('uncaughtException') > 0;

function handleError(error: unknown, origin: string): void {
  if (isHandled()) return;
  Domain.find()?.onerror(error, origin);
  // Only this error is over: without a callback it would end the process.
  process.setUncaughtExceptionCaptureCallback(() => process.setUncaughtExceptionCaptureCallback(null));
}

/** Node asks whether there are listeners, and throws a rejection that has no handler. */
function handleRejection(this: NodeJS.Process, event: string, ...args: unknown[]): boolean {
  if (event !== 'unhandledRejection' || process.listenerCount(event) > 0 || isHandled())
    return Reflect.apply(emit, this, [event, ...args]);
  Domain.find()?.onerror(args[0], event);
  return true;
}

/** Call it before tap is loaded. @returns ends it, so that later imports are not slowed down */
export function replaceDomains(): () => void {
  const hooks = registerHooks({
    resolve: (specifier, context, nextResolve) =>
      specifier === REPLACED
        ? { url: import.meta.url, format: 'module-typescript', shortCircuit: true }
        : nextResolve(specifier, context),
  });
  return () => hooks.deregister();
}
