/** Checks a child's messages: JSON-RPC 2.0, methods that a child may call, and responses to requests that were sent. */
import type { Message } from 'vscode-jsonrpc';
import { FrameError } from '../../sandbox-child/frame.ts';
import { control } from '../../sdk/contract/protocol.ts';

/** The library's method of progress: a delta of an answer. */
export const PROGRESS_METHOD = '$/progress';

const methods = new Map(
  Object.entries(control)
    .filter(([, { by }]) => by === 'child')
    .map(([name, { form }]) => [name, form]),
);

/**
 * Checks a message before the JSON-RPC library sees it: the library accepts more than a child may send.
 *
 * @param endRequest ends the request with this id; false: the child was sent none, or has responded to it
 * @throws FrameError
 */
export function checkChildMessage(message: Record<string, unknown>, endRequest: (id: number) => boolean): Message {
  const { jsonrpc, id, method } = message;
  if (jsonrpc !== '2.0') throw new FrameError('a message that is not JSON-RPC 2.0');
  if (method === undefined) checkResponse(message, endRequest);
  else if (typeof method !== 'string' || methods.get(method) !== (id === undefined ? 'notification' : 'request'))
    throw new FrameError(`a malformed ${id === undefined ? 'notification' : 'request'} ${quote(method)}`);
  else if (id !== undefined && !isId(id)) throw new FrameError('a request whose id is not an integer');
  else if (method === PROGRESS_METHOD && !isProgress(message.params)) throw new FrameError('a malformed delta');
  return message as unknown as Message;
}

function checkResponse({ id, result, error }: Record<string, unknown>, endRequest: (id: number) => boolean): void {
  if (!isId(id) || !endRequest(id)) throw new FrameError('a response to no request');
  if (error === undefined ? result === undefined : !isError(error)) throw new FrameError('a malformed response');
}

/** The library looks the token up without a check. */
const isProgress = (params: unknown): boolean =>
  typeof params === 'object' && params !== null && typeof (params as { token?: unknown }).token === 'string';

const isId = (id: unknown): id is number => Number.isSafeInteger(id) && (id as number) >= 0;

function isError(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  const { code, message } = error as Readonly<Record<string, unknown>>;
  return Number.isSafeInteger(code) && typeof message === 'string';
}

/**
 * Names a method in a reason. Callers and models read reasons as the host's words, so only names of the protocol are repeated.
 * The `toString` of a child's object may be anything, so it is not called.
 */
export function quote(name: unknown): string {
  if (typeof name !== 'string') return `whose method is of the type ${typeof name}`;
  return Object.hasOwn(control, name) ? JSON.stringify(name) : 'whose method is unknown';
}
