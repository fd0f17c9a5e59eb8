/** The cost of changes of an installation: at most one load of its account at a time, and only of unknown versions. */
import t from 'tap';
import { MIB } from '../../../sdk/contract/limits.ts';
import { AccountPluginsCache } from '../../../supervisor/children/account-plugins-cache.ts';
import { openStorageFixture, type PluginSource } from '../supervisor-fixture.ts';

/** Of one result, which the driver parses without a pause. */
const PIECE_MAX_BYTES = 1.25 * MIB;
const nextTurn = () => new Promise(setImmediate);

/** A cache whose queries wait for the test. */
function openWaitingCache(isNotified = () => true) {
  const queries: PromiseWithResolvers<{ rows: [] }>[] = [];
  const query = () => {
    const waiting = Promise.withResolvers<{ rows: [] }>();
    queries.push(waiting);
    return waiting.promise;
  };
  const cache = new AccountPluginsCache({ query } as never, {
    onLoaded: (_accountId, plugins) => plugins,
    isNotified,
  });
  /** Answers a query and lets those that wait for it go on. */
  const answer = async (index: number) => {
    queries[index]?.resolve({ rows: [] });
    await nextTurn();
  };
  return { cache, queries, answer };
}

t.test('changes during a load start one more load, after it', async (t) => {
  const { cache, queries, answer } = openWaitingCache();
  const before = cache.get('ann');
  const after = Array.from({ length: 20 }, () => {
    cache.drop('ann');
    return cache.get('ann');
  });
  await nextTurn();
  t.equal(queries.length, 1);
  const ben = cache.get('ben');
  t.equal(queries.length, 2, 'other accounts do not wait');
  await answer(1);
  await ben;
  await answer(0);
  t.equal(queries.length, 3);
  const old = await before;
  t.equal(cache.peek('ann'), undefined, 'rows that were read before the change are not served after it');
  await answer(2);
  const [first, ...others] = await Promise.all(after);
  t.not(first, old);
  t.ok(others.every((plugins) => plugins === first));
  t.equal(cache.peek('ann'), first);
  t.equal(queries.length, 3);
});

t.test('what is read while nothing is notified replaces what was known before', async (t) => {
  let isNotified = true;
  const { cache, queries, answer } = openWaitingCache(() => isNotified);
  const before = cache.get('ann');
  await answer(0);
  isNotified = false;
  const read = cache.get('ann');
  await answer(1);
  const later = cache.get('ann');
  queries[2]?.reject(Object.assign(new Error('the database shuts down'), { code: '57P01' }));
  t.equal(await later, await read);
  t.not(await later, await before);
});

t.test('while nothing is notified, calls during a load share one more', async (t) => {
  const { cache, queries, answer } = openWaitingCache(() => false);
  const first = cache.get('ann');
  const others = [cache.get('ann'), cache.get('ann')];
  t.equal(queries.length, 1);
  await answer(0);
  t.equal(queries.length, 2, 'what they must see may be newer than the load under way');
  await answer(1);
  const [second, third] = await Promise.all(others);
  t.equal(second, third);
  t.not(second, await first);
});

t.test('a change during the later load counts, too', async (t) => {
  const { cache, queries, answer } = openWaitingCache();
  const first = cache.get('ann');
  cache.drop('ann');
  const second = cache.get('ann');
  await answer(0);
  t.equal(queries.length, 2);
  cache.drop('ann');
  const third = cache.get('ann');
  await answer(1);
  t.equal(queries.length, 3);
  t.not(await second, await first);
  await answer(2);
  t.not(await third, await second);
  t.equal(cache.peek('ann'), await third);
});

t.test('a load that fails does not fail the later one', async (t) => {
  const { cache, queries, answer } = openWaitingCache();
  const first = cache.get('ann');
  cache.drop('ann');
  const second = cache.get('ann');
  queries[0]?.reject(new Error('gone'));
  await t.rejects(first, /gone/);
  await nextTurn();
  await answer(1);
  t.equal(cache.peek('ann'), await second);
});

t.test('after a lost connection no call waits for a load that began before', async (t) => {
  const { cache, queries, answer } = openWaitingCache();
  const lost = cache.get('ann');
  cache.dropAll();
  const found = cache.get('ann');
  await answer(1);
  t.equal(cache.peek('ann'), await found);
  await answer(0);
  await lost;
  t.equal(cache.peek('ann'), await found, 'the older rows do not replace the newer ones');
  t.equal(queries.length, 2);
});

t.test('a load reads what a version offers once', async (t) => {
  const fixture = await openStorageFixture(t);
  const source: PluginSource = {
    code: `tools.one = { description: 'x', parameters: {}, handler: () => 'y' }; middleware.inboundMessage = () => {};`,
    files: { 'skills/bread/SKILL.md': 'Knead.' },
    discovered: { skills: [{ name: 'bread', description: 'Bakes' }], commands: [] },
  };
  const installed = await fixture.install({ ...source, slug: 'one' });
  await fixture.install({ ...source, slug: 'two' });
  const { accountId } = installed;
  let offers = 0;
  const query = async (text: string, values: unknown[]) => {
    const found = await fixture.pool.query(text, values);
    offers += found.rows.filter(({ registrations = null }) => registrations !== null).length;
    return found;
  };
  const cache = new AccountPluginsCache({ query } as never, {
    onLoaded: (_accountId, plugins) => plugins,
    isNotified: () => true,
  });
  const first = await cache.get(accountId);
  t.equal(offers, 2);
  await fixture.pool.query(`UPDATE installations SET hook_order = 10, settings = '{"a":"b"}' WHERE id = $1`, [
    installed.installationId,
  ]);
  cache.drop(accountId);
  const second = await cache.get(accountId);
  t.equal(offers, 2);
  t.same(
    second.plugins.map(({ slug }) => slug),
    ['two', 'one'],
    'the rest is read again',
  );
  const [before] = first.plugins;
  t.same(second.plugins[1], { ...before, settings: second.plugins[1]?.settings });
  await fixture.update(installed, { ...source, semVer: '2.0.0', code: `${source.code} tools.other = tools.one;` });
  await fixture.pool.query(`UPDATE installations SET status = 'paused' WHERE id <> $1`, [installed.installationId]);
  cache.drop(accountId);
  const third = await cache.get(accountId);
  t.equal(offers, 3, 'the new version’s');
  t.same([...third.tools.keys()], ['one__one', 'one__other']);
});

t.test('a first load reads what the versions offer in pieces', async (t) => {
  const fixture = await openStorageFixture(t);
  const source: PluginSource = { code: `tools.one = { description: 'x', parameters: {}, handler: () => 'y' };` };
  const slugs = Array.from({ length: 10 }, (_, index) => `plugin-${index}`);
  let accountId = '';
  for (const slug of slugs) ({ accountId } = await fixture.install({ ...source, slug }));
  // As large as a version's offer may be.
  await fixture.pool.query(
    `UPDATE versions SET registrations = jsonb_set(registrations, '{tools,one,parameters}', jsonb_build_object('description', repeat('x', 260000)))`,
  );
  let largest = 0;
  const query = async (text: string, values: unknown[]) => {
    const found = await fixture.pool.query(text, values);
    largest = Math.max(largest, Buffer.byteLength(JSON.stringify(found.rows)));
    return found;
  };
  const cache = new AccountPluginsCache({ query } as never, {
    onLoaded: (_accountId, plugins) => plugins,
    isNotified: () => true,
  });
  const { plugins } = await cache.get(accountId);
  t.same(
    plugins.map(({ slug }) => slug),
    slugs,
  );
  t.ok(plugins.every(({ registrationBytes }) => registrationBytes > 260_000));
  t.ok(largest <= PIECE_MAX_BYTES, `${largest} bytes in one result`);
});

t.test('registrations of many short values count with their memory', async (t) => {
  const fixture = await openStorageFixture(t);
  const parameters = 'parameters: { examples: Array(15_000).fill({}) }';
  const code = `tools.one = { description: 'x', ${parameters}, handler: () => 'y' };`;
  const { accountId } = await fixture.install({ code });
  const cache = new AccountPluginsCache(fixture.pool, {
    onLoaded: (_accountId, plugins) => plugins,
    isNotified: () => true,
  });
  const [plugin] = (await cache.get(accountId)).plugins;
  t.ok(plugin && plugin.registrationBytes < 100_000 && plugin.memoryBytes > 900_000);
});

t.test('an account whose plugins take more memory than the cache may hold is not read at each call', async (t) => {
  const fixture = await openStorageFixture(t);
  const source: PluginSource = { code: `tools.one = { description: 'x', parameters: {}, handler: () => 'y' };` };
  let accountId = '';
  for (const slug of ['one', 'two']) ({ accountId } = await fixture.install({ ...source, slug }));
  await fixture.pool.query(
    `UPDATE versions SET registrations = jsonb_set(registrations, '{tools,one,parameters}',
       jsonb_build_object('examples', (SELECT jsonb_agg(0) FROM generate_series(1, 600000))))`,
  );
  let statements = 0;
  const query = (text: string, values: unknown[]) => {
    statements += 1;
    return fixture.pool.query(text, values);
  };
  const cache = new AccountPluginsCache({ query } as never, {
    onLoaded: (_accountId, plugins) => plugins,
    isNotified: () => true,
  });
  const { plugins } = await cache.get(accountId);
  t.ok(plugins.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0) > 64 * 1_048_576);
  const loaded = statements;
  await cache.get(accountId);
  t.equal(statements, loaded);
});

t.test('a version that is replaced and deleted during a load is not read, its successor is', async (t) => {
  const fixture = await openStorageFixture(t);
  const source: PluginSource = { code: `tools.one = { description: 'x', parameters: {}, handler: () => 'y' };` };
  const installed = await fixture.install({ ...source, slug: 'one' });
  let isReplaced = false;
  const query = async (text: string, values: unknown[]) => {
    const found = await fixture.pool.query(text, values);
    if (!isReplaced) {
      isReplaced = true;
      await fixture.update(installed, { ...source, semVer: '2.0.0' });
      await fixture.pool.query('UPDATE installations SET previous_version_id = NULL');
      await fixture.pool.query('UPDATE plugins SET latest_version_id = NULL WHERE latest_version_id = $1', [
        installed.versionId,
      ]);
      await fixture.pool.query('DELETE FROM versions WHERE id = $1', [installed.versionId]);
    }
    return found;
  };
  const cache = new AccountPluginsCache({ query } as never, {
    onLoaded: (_accountId, plugins) => plugins,
    isNotified: () => true,
  });
  const { plugins } = await cache.get(installed.accountId);
  t.same(
    plugins.map(({ semVer }) => semVer),
    ['2.0.0'],
  );
});

t.test('a plugin that was not found is looked for in the database, in case its notification is late', async (t) => {
  const fixture = await openStorageFixture(t);
  const source: PluginSource = { code: `tools.one = { description: 'x', parameters: {}, handler: () => 'y' };` };
  const { accountId } = await fixture.install({ ...source, slug: 'one' });
  let queries = 0;
  const query = (text: string, values: unknown[]) => {
    queries += 1;
    return fixture.pool.query(text, values);
  };
  const cache = new AccountPluginsCache({ query } as never, {
    onLoaded: (_accountId, plugins) => plugins,
    isNotified: () => true,
  });
  const first = await cache.get(accountId);
  queries = 0;
  t.equal(await cache.getNewest(accountId), first);
  t.equal(queries, 1, 'without a change nothing is loaded');
  await fixture.install({ ...source, slug: 'two' });
  t.equal(await cache.get(accountId), first, 'no notification has arrived');
  t.same([...(await cache.getNewest(accountId)).tools.keys()], ['one__one', 'two__one']);
  await fixture.pool.query(`UPDATE installations SET status = 'uninstalling'`);
  t.equal((await cache.getNewest(accountId)).tools.size, 0);
});
