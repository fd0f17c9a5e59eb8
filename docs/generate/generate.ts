/**
 * Every committed file that is derived from code. `npm run -s generate` writes them all; with `--check` it writes nothing and
 * exits with 1 if one is stale.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { printGlobals } from '../../sdk/generate/globals.ts';
import { printReference } from '../../sdk/generate/reference.ts';
import { consoleTypes } from './console-types.ts';
import { envExample } from './env-example.ts';
import { helmValuesSchema } from './helm-values-schema.ts';
import { metricsPage } from './metrics-page.ts';
import { settingsPage } from './settings-page.ts';

const generated: Readonly<Record<string, () => string | Promise<string>>> = {
  'sdk/globals.d.ts': printGlobals,
  'sdk/REFERENCE.md': printReference,
  '.env.example': envExample,
  'docs/settings.md': settingsPage,
  'docs/metrics.md': metricsPage,
  'deploy/helm/bulkhead/values.schema.json': helmValuesSchema,
  'console/rest/schema.d.ts': consoleTypes,
};

const isCheck = process.argv.includes('--check');
for (const [path, makeText] of Object.entries(generated)) {
  const file = new URL(`../../${path}`, import.meta.url);
  const [text, found] = await Promise.all([makeText(), readFile(file, 'utf8').catch(() => '')]);
  if (found === text) continue;
  if (isCheck) {
    console.error(`${path} is stale. Run npm run -s generate and commit the result.`);
    process.exitCode = 1;
  } else {
    await writeFile(file, text);
    console.log(`wrote ${path}`);
  }
}
