/** Passes requests on to the REST interface of a service. A test sees each before, and may cut it off. */
import { type IncomingMessage, request as sendRequest } from 'node:http';
import { serve } from '../fixtures/listening-server.ts';
import type { Teardown } from '../runner/harness.ts';

/** @returns whether the request is passed on; else its connection is closed */
type Intercept = (request: IncomingMessage) => boolean | Promise<boolean>;

/** Starts it. @returns its address */
export async function startRestProxy(t: Teardown, target: string, intercept: Intercept): Promise<string> {
  const { url } = await serve(t, async (request, response) => {
    if (!(await intercept(request))) {
      response.destroy();
      return;
    }
    const { method, headers } = request;
    const passed = sendRequest(`${target}${request.url}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(response);
    });
    response.on('close', () => passed.destroy());
    passed.on('error', () => response.destroy());
    request.pipe(passed);
  });
  return url;
}
