import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import t from 'tap';
import { apiSettings, readConfig as readApiConfig } from '../../api/config.ts';
import { envExample } from '../../docs/generate/env-example.ts';
import { settingsPage } from '../../docs/generate/settings-list.ts';
import { describeSettings } from '../../service/settings/settings.ts';
import { readConfig as readSupervisorConfig, supervisorSettings } from '../../supervisor/config.ts';

const written = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8');

t.test('.env.example lists every setting with its meaning and default', async (t) => {
  t.equal(written, envExample(), 'renew it: node docs/generate/env-example.ts > .env.example');
  for (const { name, doc } of [...describeSettings(apiSettings), ...describeSettings(supervisorSettings)]) {
    t.match(doc, /\.$/, `${name} says what it is`);
  }
});

t.test('docs/settings.md lists them, too', async (t) => {
  const page = readFileSync(new URL('../../docs/settings.md', import.meta.url), 'utf8');
  t.equal(page, settingsPage(), 'renew it: node docs/generate/settings-list.ts > docs/settings.md');
});

t.test('copied to .env it changes nothing', async (t) => {
  const env = parseEnv(written);
  t.same(readApiConfig(env), readApiConfig({}));
  t.same(readSupervisorConfig(env), readSupervisorConfig({}));
});
