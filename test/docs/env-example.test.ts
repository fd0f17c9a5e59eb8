import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import t from 'tap';
import { readConfig as readApiConfig } from '../../api/config.ts';
import { apiSettings } from '../../service/settings/api-settings.ts';
import { describeSettings, localSettings } from '../../service/settings/settings.ts';
import { supervisorSettings } from '../../service/settings/supervisor-settings.ts';
import { readConfig as readSupervisorConfig } from '../../supervisor/config.ts';

const written = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8');

t.test('every setting is described by a sentence', async (t) => {
  const shapes = [apiSettings, supervisorSettings, localSettings];
  for (const { name, doc } of shapes.flatMap(describeSettings)) {
    t.match(doc, /\.$/, `${name} says what it is`);
  }
});

t.test('copied to .env it changes nothing', async (t) => {
  const env = parseEnv(written);
  t.same(readApiConfig(env), readApiConfig({}));
  t.same(readSupervisorConfig(env), readSupervisorConfig({}));
});
