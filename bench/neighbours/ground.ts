/** A whole supervisor over a real database, with installations that exist in its memory only: chains read no more. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { openBlobs } from '../../db/blobs.ts';
import { openVerifier } from '../../db/identity.ts';
import { openPool } from '../../db/pool.ts';
import type { RosterEntry } from '../../db/rosters.ts';
import { openSecretKeys } from '../../db/secrets.ts';
import { buildChild } from '../../sandbox-child/build.ts';
import type { Registrations } from '../../sdk/protocol.ts';
import { openSandbox, type Sandbox } from '../../supervisor/sandbox.ts';
import { type Supervisor, startSupervisor } from '../../supervisor/supervisor.ts';
import { startTestServer, TEMPLATE, withDatabase } from '../../test/server.ts';
import { HOOK } from './plugins.ts';

export interface Ground {
  readonly sandbox: Sandbox;
  readonly supervisor: Supervisor;
  /** An installation of this code. */
  entry(name: string, code: string): Promise<RosterEntry>;
  close(): Promise<void>;
}

const registrations: Registrations = {
  ...{ hooks: [HOOK], events: [], tools: {}, commands: {}, providers: {} },
  channel: { receive: false, send: false, handshake: false, handshakeOn: null },
};

export async function openGround(directory: string): Promise<Ground> {
  const server = await startTestServer();
  const database = openPool(withDatabase(server.url, TEMPLATE), {
    ...{ name: 'bulkhead-bench', connections: 10, onError: () => undefined },
  });
  const dataDir = join(directory, 'data');
  mkdirSync(dataDir);
  const blobs = await openBlobs(dataDir);
  const program = await buildChild();
  const sandbox = await openSandbox({ mode: 'auto', directory: join(directory, 'sandbox'), program });
  const supervisor = await startSupervisor({
    dataDir,
    ...{ pool: database.pool, blobs, sandbox, logger: pino({ level: 'silent' }), childrenMax: 50, idleStopMs: 600_000 },
    keys: await openSecretKeys(dataDir),
    verifier: await openVerifier({ DATA_DIR: dataDir, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined }),
  });
  return {
    ...{ sandbox, supervisor },
    async entry(name, code) {
      const { sha256: bundleSha256 } = await blobs.put(Buffer.from(code));
      const ids = { installationId: name, accountId: 'bench', pluginId: name, pluginOwnerId: 'bench', versionId: name };
      return {
        ...{ ...ids, slug: name, semVer: '1.0.0', bundleSha256, sourceMapSha256: null, registrations, granted: [] },
        ...{ settings: {}, secretNames: [], status: 'ready', hookOrder: 0, blockedReason: null, texts: {} },
        ...{ discovered: {}, updatedAt: new Date().toISOString() },
      };
    },
    async close() {
      await supervisor.stop();
      await database.close();
      await server.stop();
    },
  };
}
