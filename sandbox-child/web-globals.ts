/** Defines the globals of the web platform. Their program is parsed on first use, so it costs nothing if a plugin uses none. */
import type { PlatformGlobal } from '../sdk/contract/realm-globals.ts';
import type { SendCall } from './host.ts';
import type { LazyGlobals, Realm } from './realm.ts';
import type { SendHttp } from './web/fetch.ts';
import type { WebProgram } from './web-program.ts';

/** The bundled program, inserted by `build-child.ts`. */
declare const WEB_PROGRAM: string;

/** The globals of `web-program.ts`. */
export const WEB_CLASSES = [
  'Headers',
  'Request',
  'Response',
  'FormData',
  'Blob',
  'File',
  'ReadableStream',
  'WritableStream',
  'TransformStream',
  'TextEncoderStream',
  'TextDecoderStream',
  'ByteLengthQueuingStrategy',
  'CountQueuingStrategy',
  'ReadableStreamDefaultReader',
  'ReadableStreamDefaultController',
  'ReadableByteStreamController',
  'WritableStreamDefaultWriter',
  'WritableStreamDefaultController',
  'TransformStreamDefaultController',
] as const satisfies readonly (keyof WebProgram['classes'] & PlatformGlobal)[];

interface FetchCalls {
  begin(): void;
  readonly open: SendCall;
  readonly read: SendCall;
}

export interface WebGlobals {
  readonly classes: LazyGlobals;
  /** Only where the account granted `host.http`. */
  readonly fetch: LazyGlobals;
}

/**
 * @param endowments the globals that the program builds on
 * @param calls `begin` is called by each `fetch` before it returns; `open` sends its request; `read` reads and closes the bodies of
 *   responses
 */
export function createWebGlobals(
  realm: Realm,
  endowments: Readonly<Record<string, unknown>>,
  calls: FetchCalls,
): WebGlobals {
  let program: WebProgram | null = null;
  let fetch: unknown = null;
  const load = (): WebProgram => {
    // Copied, because esbuild makes getters of exports, which hardening does not follow.
    program ??= realm.evaluateProgram(`${WEB_PROGRAM}\n({ ...web })`, endowments) as WebProgram;
    return program;
  };
  return {
    classes: Object.fromEntries(WEB_CLASSES.map((name) => [name, () => load().classes[name]])),
    fetch: {
      fetch: () => {
        fetch ??= realm.harden(load().createFetch(createSendHttp(calls)));
        return fetch;
      },
    },
  };
}

const createSendHttp = ({ begin, open, read }: FetchCalls): SendHttp => ({
  begin,
  open: (id, url, init) => open('http.openBody', [id, url, init]),
  read: (id) => read('http.readBody', [id]),
  close: (id) => read('http.closeBody', [id]),
});
