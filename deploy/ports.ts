/** Ports that must be free before anything is started. */
import { createServer } from 'node:net';
import type { SharedSettings } from '../service/settings/settings.ts';

/**
 * Looks at every port the processes will listen on, so that the user hears of a taken one by the name of its setting.
 *
 * @throws with one sentence naming the first setting whose port cannot be had
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
    const fault = await whyNot(host, port);
    if (fault === 'EADDRINUSE')
      throw new Error(`${name} ${port} is in use: stop the program that has it, or set ${name}.`);
    if (fault !== null) throw new Error(`${name}: cannot listen on ${host}:${port} (${fault}).`);
  }
}

/** @returns the system's error code, or null when the port is free */
function whyNot(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.listen(port, host, () => probe.close(() => resolve(null)));
  });
}
