/** Sends the head of a request alone: what a deployment answers to a body's length, without the body. */
import { request as httpRequest, type OutgoingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { ensure, expect } from './expect.ts';

const TOO_LARGE = 413;
/** A deployment, or a proxy before it, that refuses a length does so at once; one that accepts it waits for the body. Milliseconds. */
const REFUSAL_WAIT_MS = 1_000;

/**
 * @param options.over bytes over the limit that are refused in any case. Default: 1
 * @param options.wait resolves when a length that was not refused counts as accepted
 * @throws Mismatch unless the deployment accepts bodies of the maximum and refuses longer ones with 413
 */
export async function requireBodyLimit(
  address: string,
  maxBytes: number,
  headers: OutgoingHttpHeaders,
  { over = 1, wait = () => sleep(REFUSAL_WAIT_MS) }: { over?: number; wait?(): Promise<unknown> } = {},
): Promise<void> {
  expect(await announceBody(address, maxBytes + over, headers), TOO_LARGE, 'the status over the limit');
  const status = await announceBody(address, maxBytes, headers, wait());
  ensure(status !== TOO_LARGE, `${maxBytes} bytes are refused with ${TOO_LARGE}, although the limit allows them`);
}

/** Announces a body of this length, sends none of it, and resolves with the status. Null: none came before `end` resolved. */
function announceBody(
  address: string,
  bytes: number,
  headers: OutgoingHttpHeaders,
  end?: Promise<unknown>,
): Promise<number | null> {
  const url = new URL(address);
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  const options = { method: 'POST', headers: { ...headers, 'content-length': bytes }, agent: false } as const;
  return new Promise((resolve, reject) => {
    const sent = send(url, options);
    const finish = (status: number | null): void => {
      resolve(status);
      sent.destroy();
    };
    sent.on('response', (response) => finish(response.statusCode ?? 0));
    sent.on('error', reject).flushHeaders();
    end?.then(() => finish(null), reject);
  });
}
