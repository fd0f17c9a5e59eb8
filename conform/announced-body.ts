/** Sends the head of a request alone: what a deployment answers to a body's length, without the body. */
import { request as httpRequest, type OutgoingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';

/** Announces a body of this length, sends none of it, and resolves with the status. */
export function announceBody(address: string, bytes: number, headers: OutgoingHttpHeaders): Promise<number> {
  const url = new URL(address);
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
  const options = { method: 'POST', headers: { ...headers, 'content-length': bytes }, agent: false } as const;
  return new Promise((resolve, reject) => {
    const sent = send(url, options, (response) => {
      resolve(response.statusCode ?? 0);
      sent.destroy();
    });
    sent.on('error', reject).flushHeaders();
  });
}
