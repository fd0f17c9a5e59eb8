/** `MODELS_FILE`: what it may hold, and what start-up says when it does not. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { readModels } from '../../../supervisor/host/llm/configuration.ts';
import { temporaryFolder } from '../../runner/harness.ts';

const good = { name: 'main', kind: 'openai', baseUrl: 'https://models.example.com/v1', models: ['big'] };
const KEY = 'sk-secret';

t.test('models are names or say more; keys come from the file or a variable', async (t) => {
  const path = join(await temporaryFolder(t), 'models.json');
  const claude = { id: 'claude', name: 'Claude', price: { inputPerMillion: 3, outputPerMillion: 15 } };
  const more = { ...good, name: 'second', kind: 'anthropic', apiKeyEnv: 'THE_KEY', models: [claude] };
  await writeFile(path, JSON.stringify([{ ...good, apiKey: 'k', maxTokensField: 'max_completion_tokens' }, more]));
  const [first, second] = await readModels(path, { THE_KEY: KEY });
  t.match(first, { name: 'main', apiKey: 'k', structuredOutputs: true, models: [{ id: 'big', name: 'big' }] });
  t.equal(first?.maxTokensField, 'max_completion_tokens');
  t.match(second, { name: 'second', apiKey: KEY, models: [claude] });
  t.notOk(second && 'apiKeyEnv' in second);
  t.same(await readModels(undefined, {}), []);

  const added = await readModels(path, {}, () => ({ THE_KEY: KEY }));
  t.equal(added[1]?.apiKey, KEY, 'a key that was added to .env after the start of npm start');
  const [, padded] = await readModels(path, { THE_KEY: `${KEY}\n` });
  t.equal(padded?.apiKey, `${KEY}\n`, 'a line break at the end is not sent');
  const changed = await readModels(path, { THE_KEY: KEY }, () => ({ THE_KEY: 'other' }));
  t.equal(changed[1]?.apiKey, KEY, 'a variable wins');
});

t.test('errors name the field without its value', async (t) => {
  const path = join(await temporaryFolder(t), 'models.json');
  const wrong: readonly [unknown, RegExp][] = [
    [{ ...good, name: 'Big__One', apiKey: KEY }, /MODELS_FILE: 0\.name: must be 1-32 small letters/],
    [{ ...good, kind: 'telepathy', apiKey: KEY }, /MODELS_FILE: 0\.kind/],
    [{ ...good, baseUrl: `ftp://${KEY}@x` }, /MODELS_FILE: 0\.baseUrl: must be an http or https address/],
    [
      { ...good, baseUrl: `https://user:${KEY}@models.example.com/v1` },
      /0\.baseUrl: must be .* without user name, password, /,
    ],
    [{ ...good, baseUrl: `https://models.example.com/v1?key=${KEY}` }, /0\.baseUrl: must be .* query and fragment\./],
    [
      { ...good, apiKeyEnv: 'NOT_SET' },
      /main wants the variable NOT_SET, which is not set\. Set it in the environment or in \.env\./,
    ],
    [{ ...good, apiKeyEnv: KEY }, /MODELS_FILE: 0\.apiKeyEnv: must be the name of an environment variable, such as /],
    ...[`“${KEY}”`, `${KEY}\n${KEY}`].map((apiKey): [unknown, RegExp] => [
      { ...good, apiKey },
      /MODELS_FILE: the key of main holds a line break or a character that is not ASCII\. Copy it again\.$/,
    ]),
    [{ ...good, apiKey: KEY, apiKeyEnv: 'THE_KEY' }, /both apiKey and apiKeyEnv/],
    [{ ...good, apikey: KEY }, /MODELS_FILE: 0/],
    [{ ...good, maxTokensField: 'tokens', apiKey: KEY }, /MODELS_FILE: 0\.maxTokensField/],
    [{ ...good, models: [] }, /MODELS_FILE: 0\.models/],
    [{ ...good, models: ['big', 'small', { id: 'big' }] }, /0\.models\.2: has the id of an earlier model; remove one/],
    [{ ...good, models: ['big', 'a\nb'] }, /0\.models\.1: contains U\+000A, a control, .* character; remove it\.$/],
    [{ ...good, models: [{ id: 'big', name: 'B\u202eig' }] }, /0\.models\.0: name contains U\+202E, a control, /],
  ];
  for (const [provider, message] of wrong) {
    await writeFile(path, JSON.stringify([provider]));
    const error = await readModels(path, {}).catch((reason: Error) => reason);
    t.match(error, { name: 'SettingsError', message });
    t.notMatch(String(error), KEY);
  }
  await writeFile(path, JSON.stringify([good, good]));
  await t.rejects(readModels(path, {}), /two providers are called main/);
  await writeFile(path, `[{"apiKey": "${KEY}"`);
  await t.rejects(readModels(path, {}), { message: 'MODELS_FILE is not valid JSON.' });
  await t.rejects(readModels(join(path, 'gone'), {}), /MODELS_FILE cannot be read/);
});
