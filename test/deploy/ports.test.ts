import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import t from 'tap';
import { computeBackoff } from '../../deploy/backoff.ts';
import { refuseTakenPorts } from '../../deploy/ports.ts';
import { parseSettings, sharedSettings } from '../../service/settings/settings.ts';
import { freePort } from '../fixtures/free-port.ts';
import { listenOn } from '../fixtures/listening-server.ts';

t.test('a taken port is named by its setting', async (t) => {
  const { port } = await listenOn(t, createServer());
  const settings = parseSettings(sharedSettings, {});
  await t.rejects(refuseTakenPorts({ ...settings, PORT: port }), {
    message: `PORT ${port} is in use: stop the program that has it, or set PORT.`,
  });
  await t.rejects(refuseTakenPorts({ ...settings, PORT: await freePort(), SUPERVISOR_PORT: port }), {
    message: `SUPERVISOR_PORT ${port} is in use: stop the program that has it, or set SUPERVISOR_PORT.`,
  });
  await t.rejects(refuseTakenPorts({ ...settings, HOST: '203.0.113.9' }), {
    message: 'HOST 203.0.113.9 is not an address of this machine (EADDRNOTAVAIL).',
  });
});

t.test('two settings cannot share a port', async (t) => {
  const settings = parseSettings(sharedSettings, {});
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  await t.rejects(refuseTakenPorts({ ...settings, PORT: port, SUPERVISOR_PORT: port }), {
    message: `SUPERVISOR_PORT is ${port}, which another setting uses already.`,
  });
});

t.test('waits grow and end growing', async (t) => {
  t.same([0, 1, 2, 3, 8, 100].map(computeBackoff), [250, 250, 500, 1_000, 5_000, 5_000]);
});
