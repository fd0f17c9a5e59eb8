/** Checks that all ports are free before anything is started. */
import { createServer } from 'node:net';
import type { SharedSettings } from '../service/settings/settings.ts';

/**
 * Checks every port that the processes listen on, so that the error can name the setting.
 *
 * @throws Error with one sentence that names the first setting whose port is not available
 */
export async function refuseTakenPorts(settings: SharedSettings): Promise<void> {
  const wanted = [
    ['PORT', settings.HOST, settings.PORT],
    ['SUPERVISOR_PORT', settings.HOST, settings.SUPERVISOR_PORT],
    ['API_OPS_PORT', settings.OPS_HOST, settings.API_OPS_PORT],
    ['SUPERVISOR_OPS_PORT', settings.OPS_HOST, settings.SUPERVISOR_OPS_PORT],
  ] as const;
  const seen = new Set<number>();
  for (const [name, host, port] of wanted) {
    if (seen.has(port)) throw new Error(`${name} is ${port}, which another setting uses already.`);
    seen.add(port);
    const fault = await findListenFault(host, port);
    if (fault === 'EADDRINUSE')
      throw new Error(`${name} ${port} is in use: stop the program that has it, or set ${name}.`);
    if (fault !== null) throw new Error(`${name}: cannot listen on ${host}:${port} (${fault}).`);
  }
}

/** The first port from here on that nothing listens on. */
export async function findFreePort(host: string, from: number): Promise<number> {
  let port = from;
  while ((await findListenFault(host, port)) !== null) port += 1;
  return port;
}

/** @returns the system's error code, or null when the port is free */
function findListenFault(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.listen(port, host, () => probe.close(() => resolve(null)));
  });
}
