/**
 * Every committed file that is derived from code. `npm run -s generate` writes them all; with `--check` it writes nothing and
 * exits with 1 if one is stale.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { printDashboard } from '../../deploy/grafana/dashboard.ts';
import { printGlobals } from '../../sdk/generate/globals.ts';
import { printReference } from '../../sdk/generate/reference.ts';
import { consoleTypes } from './console-types.ts';
import { envExample } from './env-example.ts';
import { globalsPage } from './globals-page.ts';
import { helmValuesSchema } from './helm-values-schema.ts';
import { metricsPage } from './metrics-page.ts';
import { packagePage } from './package-page.ts';
import { sdkDeclarations } from './sdk-declarations.ts';
import { sessionApiPage } from './session-api-page.ts';
import { settingsPage } from './settings-page.ts';

const ROOT = new URL('../../', import.meta.url);
const generated: Readonly<Record<string, () => string | Promise<string>>> = {
  'sdk/globals.d.ts': printGlobals,
  'sdk/REFERENCE.md': printReference,
  '.env.example': envExample,
  'docs/settings.md': settingsPage,
  'docs/metrics.md': metricsPage,
  'docs/session-api.md': sessionApiPage,
  'docs/plugin-globals.md': globalsPage,
  'docs/package-format.md': packagePage,
  'deploy/helm/bulkhead/values.schema.json': helmValuesSchema,
  'deploy/grafana/dashboards/bulkhead.json': printDashboard,
  'sdk/rest/schema.d.ts': consoleTypes,
};

const isCheck = process.argv.includes('--check');
for (const [path, makeText] of Object.entries(generated)) await update(path, await makeText());
const declarations = await sdkDeclarations();
for (const path of await listDeclarations()) if (!(path in declarations)) await update(path, null);
for (const [path, text] of Object.entries(declarations)) await update(path, text);

async function listDeclarations(): Promise<string[]> {
  const entries = await readdir(new URL('sdk/declarations/', ROOT), { recursive: true }).catch(() => []);
  return entries.filter((name) => name.endsWith('.d.ts')).map((name) => `sdk/declarations/${name}`);
}

/** @param text null: the file is no longer generated */
async function update(path: string, text: string | null): Promise<void> {
  const file = new URL(path, ROOT);
  if ((await readFile(file, 'utf8').catch(() => null)) === text) return;
  if (isCheck) {
    console.error(`${path} is stale. Run npm run -s generate and commit the result.`);
    process.exitCode = 1;
    return;
  }
  if (text === null) return rm(file);
  await mkdir(new URL('.', file), { recursive: true });
  await writeFile(file, text);
  console.log(`wrote ${path}`);
}
