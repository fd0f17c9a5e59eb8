import { readFileSync } from 'node:fs';
import t from 'tap';
import { consoleSchema } from './schema.ts';

t.test('the console is typed by the REST interface as it is', async (t) => {
  const there = readFileSync(new URL('../../console/rest/schema.d.ts', import.meta.url), 'utf8');
  const wanted = await consoleSchema();
  t.ok(there === wanted, 'stale: node test/console/schema.ts > console/rest/schema.d.ts');
});
