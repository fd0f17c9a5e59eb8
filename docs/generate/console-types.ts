/** The text of `sdk/rest/schema.d.ts`: the types of the REST interface for the console and the command line, made from its OpenAPI document. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { type AppDeps, buildApp } from '../../api/app.ts';

const GENERATOR = fileURLToPath(new URL('../../test/node_modules/openapi-typescript/bin/cli.js', import.meta.url));

/** A stand-in for dependencies that no route uses, because none is called. */
const unused = <T extends object>(): T => new Proxy({}, {}) as T;

async function readDocument(): Promise<string> {
  const app = await buildApp({
    ...unused<AppDeps>(),
    services: unused(),
    signIn: unused(),
    consoleSessions: unused(),
    metrics: unused(),
    logger: pino({ level: 'silent' }),
    limits: { reads: 1, writes: 1, anonymous: 1, uploadsAtOnce: 1, pluginsPerAccount: 1, installationsPerAccount: 1 },
    publicUrl: 'http://localhost:4000',
  });
  const answer = await app.inject({ method: 'GET', url: '/api/openapi.json' });
  await app.close();
  return answer.body;
}

interface Operation {
  readonly responses: Record<string, { headers?: unknown }>;
}

/**
 * Removes what the two clients do not read: they throw each refusal, and return no headers. This is two thirds of the file.
 */
function removeUnread(text: string): string {
  const document: { readonly paths: Record<string, Record<string, Operation>> } = JSON.parse(text);
  for (const { responses } of Object.values(document.paths).flatMap((methods) => Object.values(methods)))
    for (const [status, response] of Object.entries(responses)) {
      if (Number(status) >= 400) delete responses[status];
      delete response.headers;
    }
  return JSON.stringify(document);
}

/** The text of the file. */
export async function consoleTypes(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'bulkhead-schema-'));
  try {
    const [from, to] = [join(folder, 'openapi.json'), join(folder, 'schema.d.ts')];
    writeFileSync(from, removeUnread(await readDocument()));
    execFileSync(process.execPath, [GENERATOR, from, '-o', to], { stdio: 'pipe' });
    return readFileSync(to, 'utf8');
  } finally {
    rmSync(folder, { recursive: true });
  }
}
