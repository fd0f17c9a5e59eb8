/** Checks that all ports are free before anything is started. */
import { createServer } from 'node:net';
import { createListenFault, nameAddress } from '../service/lifecycle/start-faults.ts';
import type { SharedSettings } from '../service/settings/settings.ts';

/**
 * Checks every port that the processes listen on, so that the error can name the setting.
 *
 * @throws Error with one sentence that names the first setting whose port is not available
 */
export async function refuseTakenPorts(settings: SharedSettings): Promise<void> {
  const wanted = [
    nameAddress(settings, 'HOST', 'PORT'),
    nameAddress(settings, 'HOST', 'SUPERVISOR_PORT'),
    nameAddress(settings, 'OPS_HOST', 'API_OPS_PORT'),
    nameAddress(settings, 'OPS_HOST', 'SUPERVISOR_OPS_PORT'),
  ];
  const seen = new Set<number>();
  for (const address of wanted) {
    const { portSetting, host, port } = address;
    if (seen.has(port)) throw new Error(`${portSetting} is ${port}, which another setting uses already.`);
    seen.add(port);
    const fault = await findListenFault(host, port);
    if (fault !== null) throw createListenFault(address, fault);
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
