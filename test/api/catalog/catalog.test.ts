/** The catalog: who sees what, how it is searched, and what an operator's word does to it. */
import t from 'tap';
import { readCatalog } from '../../../api/catalog/catalog-queries.ts';
import { findOrCreateAccount, setOperator } from '../../../db/accounts/accounts.ts';
import { changeBlock, verifyAuthor } from '../../../db/accounts/moderation.ts';
import { soakTest } from '../../runner/soak.ts';
import { type Client, startApiFixture } from '../api-fixture.ts';
import { fileList, INDEX, introspectsMinimal } from '../package/packages.ts';

// This file does not test the registrations of a package.
const api = await startApiFixture(t, { introspect: introspectsMinimal });
const ann = await api.user('ann');
const ben = await api.user('ben');

interface Made {
  readonly slug: string;
  readonly displayName?: string;
  readonly description?: string;
  readonly readme?: string;
  readonly listed?: boolean;
}
async function make(owner: Client, { slug, displayName = slug, description = '', readme = '', listed = true }: Made) {
  const { id } = (await owner.post('/plugins', { slug, displayName, description })).body;
  const text = `---\nname: ${displayName}\ndescription: ${description || 'Says of itself nothing'}\n---\n${readme}\n`;
  const files = fileList({ 'readme.md': text, 'index.ts': INDEX });
  const version = await owner.post(`/plugins/${id}/versions`, { semVer: '1.0.0', files });
  if (version.status !== 201) throw new Error(JSON.stringify(version.body));
  if (listed) await owner.post(`/plugins/${id}/listing`);
  return id as string;
}
const slugs = (body: { items: { slug: string }[] }) => body.items.map(({ slug }) => slug);
const search = async (who: Client, q: string, rest = '') =>
  slugs((await who.get(`/marketplace?q=${encodeURIComponent(q)}${rest}`)).body);
/** Every page of a list, so many at a time. */
async function leaf(who: Client, path: string, limit: number): Promise<string[][]> {
  const pages: string[][] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { body } = await who.get(`${path}&limit=${limit}${cursor ? `&cursor=${cursor}` : ''}`);
    pages.push(slugs(body));
    cursor = body.nextCursor;
  }
  return pages;
}

const forecastId = await make(ann, {
  slug: 'weather',
  displayName: 'Weather',
  description: 'Adds the forecast to every prompt',
  readme: '# Weather\nUses barometers and satellites, for sailors.',
});
await make(ann, { slug: 'weather-alerts', displayName: 'Storm warner', description: 'Warns of storms' });
await make(ann, { slug: 'sailing', displayName: 'Read/Write sails', description: 'Knots; best with weather data' });
await make(ben, { slug: 'tides', displayName: 'Tide tables', readme: 'Ebb and flow, in any weather.' });
await make(ann, { slug: 'anns-weather-diary', description: 'Private', listed: false });
const withdrawnId = await make(ann, { slug: 'barometer', description: 'No longer listed' });
await ann.delete(`/plugins/${withdrawnId}/listing`, { deprecationMessage: 'Use weather.' });

t.test('the list contains listed plugins and the caller’s private and delisted ones, by slug', async (t) => {
  const everybody = ['sailing', 'tides', 'weather', 'weather-alerts'];
  t.same(slugs((await ben.get('/marketplace')).body), everybody);
  t.same(slugs((await ann.get('/marketplace')).body), ['anns-weather-diary', 'barometer', ...everybody]);
  for (const limit of [1, 2, 3])
    t.same(
      (await leaf(ann, '/marketplace?', limit)).flat(),
      ['anns-weather-diary', 'barometer', ...everybody],
      `${limit} at a time`,
    );
});

t.test('a page reads nothing of what its versions offer', async (t) => {
  await api.pool.query(
    `UPDATE versions SET discovered = discovered || jsonb_build_object('long', repeat('x', 262144)) WHERE plugin_id = $1`,
    [forecastId],
  );
  let bytes = 0;
  const query = async (text: string, values: unknown[]) => {
    const found = await api.pool.query(text, values);
    bytes += JSON.stringify(found.rows).length;
    return found;
  };
  const { items } = await readCatalog({ pool: { query } as never }, { id: 'nobody' } as never, { limit: 100 });
  t.equal(items.length, 4);
  t.ok(bytes < 65_536, `${bytes} bytes`);
});

t.test('a search finds slug, name, description and readme, the nearer match first', async (t) => {
  t.same(await search(ben, 'weather'), ['weather', 'weather-alerts', 'sailing', 'tides']);
  t.same(await search(ann, 'weather'), ['weather', 'anns-weather-diary', 'weather-alerts', 'sailing', 'tides']);
  t.same(await search(ben, 'Storm WARNER'), ['weather-alerts'], 'the name');
  t.same(await search(ben, 'forecasts'), ['weather'], 'the description, by word stems');
  t.same(await search(ben, 'satellite'), ['weather'], 'the readme');
  t.same(await search(ben, 'tide weather'), ['tides'], 'every word counts');
  t.same(await search(ben, 'write'), ['sailing'], 'punctuation parts words');
  t.same(await search(ben, 'weather-alerts'), ['weather-alerts']);
});

await soakTest(t, 'a search finds names and texts in other forms of the same letters', async (t) => {
  const names = { wide: 'Ｔｉｄｙ', half: 'ｶﾚﾝﾀﾞｰ', ligature: 'ﬁne ﬂow', marks: 'Cafe\u0301 notes' };
  const ids: string[] = [];
  for (const [slug, displayName] of Object.entries(names)) {
    ids.push(await make(ann, { slug, displayName, readme: `Bakes cre\u0300pes. ${'ﷺ'.repeat(20_000)}` }));
    for (const typed of [displayName, displayName.normalize('NFKC'), displayName.toLowerCase()])
      t.same(await search(ben, typed), [slug], typed);
  }
  t.same((await search(ben, 'crèpes')).toSorted(), Object.keys(names).toSorted());
  for (const id of ids) await ann.delete(`/plugins/${id}/listing`);
});

await soakTest(t, 'a search finds words beside marks and symbols', async (t) => {
  const description = 'Bridges the “Zulip” chat to Matrix→Mattermost — „Urlaub“, «congés», ¿facturas?';
  const id = await make(ann, {
    slug: 'bridge',
    displayName: '⛅️Nimbus…cloud',
    description,
    readme: 'notes—searchable—in؟',
  });
  const words = ['zulip', 'matrix', 'mattermost', 'urlaub', 'congés', 'facturas', 'nimbus', 'cloud', 'searchable'];
  for (const typed of [...words, '⛅️ nimbus', '“Zulip” chat']) t.same(await search(ben, typed), ['bridge'], typed);
  await ann.delete(`/plugins/${id}/listing`);
});

await soakTest(t, 'a search finds words of scripts without spaces', async (t) => {
  const made = {
    tokyo: {
      displayName: '東京天気予報',
      description: '東京の天気予報を表示します。',
      readme: '明日の気温も表示します。',
    },
    tianqi: { displayName: '天气助手', description: '查询全国天气预报，支持空气质量。' },
    akat: { displayName: 'พยากรณ์อากาศ', description: 'แสดงสภาพวันนี้' },
    most: {
      displayName: 'Most signs',
      readme: Array.from({ length: 65_000 }, (_, n) => String.fromCodePoint(0x20000 + ((n * 7919) % 42_000))).join(''),
    },
  };
  const ids: string[] = [];
  for (const [slug, texts] of Object.entries(made)) ids.push(await make(ann, { slug, ...texts }));
  for (const typed of ['天気', '予報', '天気予報', '東京 予報', '気温', '報', '東京天気予報'])
    t.same(await search(ben, typed), ['tokyo'], typed);
  for (const typed of ['天气预报', '助手', '空气质量']) t.same(await search(ben, typed), ['tianqi'], typed);
  for (const typed of ['อากาศ', 'วันนี้']) t.same(await search(ben, typed), ['akat'], typed);
  t.same(await search(ben, '予天'), [], 'in another order');
  for (const id of ids) await ann.delete(`/plugins/${id}/listing`);
});

t.test('search matches prefixes and corrects misspelt words', async (t) => {
  for (const typed of ['wea', 'weat', 'weathe']) t.equal((await search(ben, typed))[0], 'weather', typed);
  t.same(await search(ben, 'ti'), ['tides']);
  for (const typed of ['wether', 'wheather', 'waether']) t.equal((await search(ben, typed))[0], 'weather', typed);
  t.equal((await search(ben, 'tide tabels'))[0], 'tides');
  t.same(await search(ben, 'zzzzqqqq'), []);
  const guesses = await ben.get('/marketplace?q=wether&limit=1');
  t.match(guesses.body, { items: [{ slug: 'weather' }], nextCursor: null }, 'guesses have no further pages');
});

await soakTest(t, 'search corrects each misspelt word and requires all words', async (t) => {
  t.same(await search(ben, 'wether alrets'), ['weather-alerts']);
  t.same(
    await search(ben, 'wether satellite'),
    ['weather'],
    'a right word of the readme beside a wrong one of the title',
  );
  t.equal((await search(ben, 'weahter'))[0], 'weather', 'letters swapped');
  t.equal((await search(ben, 'wethe'))[0], 'weather', 'unfinished besides');
  t.same(await search(ben, 'tie'), [], 'short words are not guessed at');
  t.same(await search(ann, 'wether diray'), ['anns-weather-diary'], 'words of one’s own private titles');
  t.same(await search(ben, 'wether diray'), ['weather', 'weather-alerts'], 'not suggested to other accounts');
  const { rows } = await api.pool.query(`SELECT 1 FROM catalog_words WHERE word = 'diary'`);
  t.equal(rows.length, 0);
});

await soakTest(t, 'a search in which one word is too many finds titles with any of the others', async (t) => {
  for (const typed of [
    'weather plugin',
    'plugin wea',
    'weather for bicycles',
    'wether for bicycles',
    'plugins: weather',
  ])
    t.same(await search(ben, typed), ['weather', 'weather-alerts'], typed);
  t.same(await search(ben, 'alerts bicycles'), ['weather-alerts']);
  t.same(await search(ben, 'satellite bicycles'), [], 'readmes contain many words');
  t.same(await search(ben, 'for the plugin'), [], 'words that fit every plugin');
  t.same(await search(ben, `${'weather'.repeat(20)} tides`), ['tides']);
});

await soakTest(t, 'misspelt words in other texts hide no plugin whose name they nearly are', async (t) => {
  const stuffed = await make(ann, { slug: 'casino', description: 'Play', readme: 'wether wheather sattellite' });
  for (const typed of ['wether', 'wheather'])
    t.same(await search(ben, typed), ['weather', 'weather-alerts', 'casino'], typed);
  t.same(await search(ben, 'wether', '&limit=2'), ['weather', 'casino'], 'no more than asked for');
  t.same(await search(ben, 'sattellite'), ['casino'], 'no title is near');
  const described = await make(ann, { slug: 'rams', description: 'Counts each wether' });
  t.same(await search(ben, 'wether'), ['rams', 'weather', 'weather-alerts', 'casino'], 'a description comes first');
  for (const id of [stuffed, described]) await ann.delete(`/plugins/${id}/listing`);
});

await soakTest(t, 'plugins listed at once with the same new words do not hold each other up', async (t) => {
  const words = ['zephyr', 'mistral', 'sirocco', 'monsoon', 'chinook'];
  const names = words.map((_, first) => [...words.slice(first), ...words.slice(0, first)].join('-'));
  await Promise.all(names.map((slug) => make(ann, { slug, displayName: 'Winds' })));
  t.equal((await search(ben, 'siroco monson')).length, names.length);
  await Promise.all(
    (await ann.get('/plugins?limit=1000')).body.items
      .filter(({ slug }: { slug: string }) => names.includes(slug))
      .map(({ id }: { id: string }) => ann.delete(`/plugins/${id}/listing`, { deprecationMessage: 'Calm' })),
  );
  t.same(await search(ben, 'siroco monson'), [], 'words of delisted ones lead nowhere');
});

t.test('no text breaks a search', async (t) => {
  const texts = [
    '!!!',
    "'",
    'a & | ! ( :*',
    '\\',
    '%',
    '_',
    '<->',
    'the',
    '😀',
    '天気',
    'x'.repeat(200),
    'a '.repeat(100),
  ];
  for (const text of texts) t.equal((await ben.get(`/marketplace?q=${encodeURIComponent(text)}`)).status, 200, text);
  t.same(await search(ben, '%'), []);
  t.same(slugs((await ben.get('/marketplace?q=%20')).body).length, 4, 'blank: the whole list');
  const mark = (await ben.get('/marketplace?limit=1')).body.nextCursor.slice(0, 8);
  const encode = (key: string) => mark + Buffer.from(key).toString('base64url');
  for (const key of ['weather', '4 0 a', '0 x a', '0 0 A', '0 0', '1 -999999 a'])
    t.equal((await ben.get(`/marketplace?q=a&cursor=${encode(key)}`)).status, 400, key);
  t.equal((await ben.get(`/marketplace?q=a&cursor=${encode('1 -99999 a')}`)).status, 200);
  t.equal((await ben.get(`/marketplace?q=a&cursor=${encode('1 99999 a')}`)).status, 200);
});

t.test('among equal matches the more installed comes first, on every page size, and the count is right', async (t) => {
  const names = Array.from({ length: 7 }, (_, index) => `clock-${index}`);
  for (const slug of names) await make(ann, { slug, displayName: 'A chronometer' });
  const users = await Promise.all(Array.from({ length: 4 }, (_, index) => api.user(`user-${index}`)));
  const ids = await Promise.all(users.map((user) => user.post('/installations', { slug: 'clock-5' })));
  await ben.post('/installations', { slug: 'clock-3' });
  const ranked = ['clock-5', 'clock-3', 'clock-0', 'clock-1', 'clock-2', 'clock-4', 'clock-6'];
  t.same(await search(ben, 'chronometer'), ranked);
  for (const limit of [1, 2, 3, 7]) {
    const pages = await leaf(ben, '/marketplace?q=clock', limit);
    t.same(pages.flat(), ranked, `${limit} at a time`);
    t.ok(
      pages.every((page) => page.length > 0),
      'no page is empty',
    );
  }
  const countOf = async () => (await ben.get('/marketplace/clock-5')).body.installCount;
  t.equal(await countOf(), 4);
  await Promise.all(ids.slice(0, 3).map(({ body }, index) => users[index]?.delete(`/installations/${body.id}`)));
  t.equal(await countOf(), 1);
  const { rows } = await api.pool.query(
    `SELECT count(*)::int AS wrong FROM install_counts c WHERE installs <>
       (SELECT count(*) FROM installations i WHERE i.plugin_id = c.plugin_id AND i.status <> 'uninstalling')`,
  );
  t.equal(rows[0].wrong, 0);
});

t.test('a verified author shows their identity until they no longer are', async (t) => {
  const card = async () => (await ben.get('/marketplace/weather')).body;
  t.match(await card(), { tier: 'community', author: { name: 'ann', verified: false }, installed: false });
  t.equal((await card()).reach[0].capability, 'middleware.systemPrompt');
  t.match((await card()).reach[0], { sentence: /\w/, risk: /low|medium|high/ });
  t.ok(await verifyAuthor(api.pool, 'ann', true));
  t.match(await card(), { tier: 'verified', author: { name: 'ann', verified: true } });
  t.equal((await ben.get('/marketplace?q=weather')).body.items[0].tier, 'verified');
  t.ok(await verifyAuthor(api.pool, 'ann', false));
  t.equal((await card()).tier, 'community');
  t.notOk(await verifyAuthor(api.pool, 'nobody', true));
});

t.test('the catalog hides a blocked plugin; its users and owner see the reason', async (t) => {
  const { body } = await ben.post('/installations', { slug: 'weather' });
  t.match(await changeBlock(api.pool, 'weather', 'it phones home'), { installations: 1 });
  t.notOk(slugs((await ben.get('/marketplace')).body).includes('weather'));
  t.notOk((await search(ben, 'weather')).includes('weather'));
  t.match((await ben.get('/marketplace/weather')).body, { installed: true, blockedReason: 'it phones home' });
  t.match((await ann.get('/marketplace/weather')).body, { installed: false, blockedReason: 'it phones home' });
  t.match((await ann.get(`/plugins/${forecastId}`)).body, { visibility: 'listed', blockedReason: 'it phones home' });
  const why = 'The operator blocked this plugin: it phones home.';
  t.equal((await ben.get(`/installations/${body.id}`)).body.statusReason, why);
  const cleo = await api.user('cleo');
  t.equal((await cleo.get('/marketplace/weather')).status, 404);
  const refused = await cleo.post('/installations', { slug: 'weather' });
  t.match(refused, { status: 403, body: { code: 'plugin_blocked', detail: /it phones home/ } });
  t.ok(await changeBlock(api.pool, 'weather', null));
  t.match((await cleo.get('/marketplace/weather')).body, { blockedReason: null });
  t.equal((await ben.get(`/installations/${body.id}`)).body.statusReason, null);
  t.equal((await cleo.post('/installations', { slug: 'weather' })).status, 201);
  t.equal(await changeBlock(api.pool, 'no-such-plugin', 'x'), null);
});

t.test('an operator reads everything and changes nothing of others’', async (t) => {
  await setOperator(api.pool, (await findOrCreateAccount(api.pool, 'olga')).id, true);
  const olga = await api.user('olga');
  const own = (await ann.post('/installations', { slug: 'anns-weather-diary' })).body;
  const diary = (await ann.get('/marketplace/anns-weather-diary')).body;
  const pluginId = own.pluginId as string;
  t.equal((await olga.get(`/plugins/${pluginId}?includeFiles=true`)).body.files.length, 2);
  t.equal((await olga.get(`/plugins/${pluginId}/versions/${diary.latest.versionId}/files`)).status, 200);
  t.equal((await olga.get('/marketplace/anns-weather-diary')).body.installed, false);
  const read = await olga.get(`/installations/${own.id}`);
  t.match(read, { status: 200, body: { id: own.id, secretNames: [] } });
  t.equal((await olga.get(`/plugin-logs?installationId=${own.id}`)).status, 200);
  t.same((await olga.get('/installations')).body.items, [], 'its own list is its own');
  const path = `/installations/${own.id}`;
  for (const refused of [
    await olga.post(`${path}/configure`, { settings: {} }),
    await olga.post(`${path}/pause`),
    await olga.post(`${path}/rerun-setup`),
    await olga.patch(path, { hookOrder: 1 }),
    await olga.delete(path),
    await olga.delete(`/plugins/${pluginId}`),
    await olga.post(`/plugins/${pluginId}/listing`),
    await olga.post('/installations', { slug: 'anns-weather-diary' }),
    await olga.post(`/plugins/${pluginId}/versions`, { semVer: '2.0.0', files: [] }),
  ])
    t.equal(refused.status, 404);
  t.equal((await ben.get(path)).status, 404, 'other accounts cannot read it');
});

t.test('an entry says whether it leaves out older versions', async (t) => {
  const id = await make(ann, { slug: 'old' });
  const insert = (first: number, last: number) =>
    api.pool.query(
      `INSERT INTO versions SELECT (jsonb_populate_record(v, jsonb_build_object('id', v.id || n, 'semver', '1.' || n || '.0'))).*
         FROM versions v, generate_series($2::int, $3) n WHERE v.plugin_id = $1 AND v.semver = '1.0.0'`,
      [id, first, last],
    );
  await insert(101, 199);
  const { body: all } = await ben.get('/marketplace/old');
  t.match(all, { versionsTruncated: false, versions: { length: 100 } });
  t.equal(all.versions.at(-1).semVer, '1.0.0');
  await insert(200, 200);
  const { body: cut } = await ben.get('/marketplace/old');
  t.match(cut, { versionsTruncated: true, versions: { length: 100 } });
  t.equal(cut.versions.at(-1).semVer, '1.101.0');
});
