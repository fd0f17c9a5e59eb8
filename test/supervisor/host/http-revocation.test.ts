/** `host.http.fetch` from a real plugin: what it is given, and that nothing stays open when it may not any more. */
import t, { type Test } from 'tap';
import { notifyInstallationChanged } from '../../../db/postgres/notifications.ts';
import { type ListeningServer, serve } from '../../fixtures/listening-server.ts';
import { eventually } from '../../runner/eventually.ts';
import { killProcess } from '../../runner/harness.ts';
import { connectionEnds } from '../../runner/open-ends.ts';
import { listCases } from '../../runner/soak.ts';
import { type Installed, type SupervisorFixture, startSupervisorFixture } from '../supervisor-fixture.ts';
import { startDns } from './dns-server.ts';

const FETCHING = `commands.run = { description: 'd', handler: async (url) => {
  const cookies = ({ headers }) => headers.getSetCookie().join(' | ');
  if (url.includes('/head/')) return { text: await fetch(url).then(cookies, ({ cause }) => cause.message) };
  const all = Array.from({ length: 3 }, () => host.http.fetch(url).then(({ status, bodyText, bodyBytes }) =>
    status + ' ' + bodyText + ' ' + bodyBytes.constructor.name + bodyBytes.length, (error) => error.code + ': ' + error.message));
  return { text: [...new Set(await Promise.all(all))].join() };
} };`;

const dns = await startDns(t);
dns.set('api.test', ['127.0.0.1']);
const allowPrivate = new Set<string>();
const shared = await startSupervisorFixture(t, { http: { dnsServers: [dns.address], allowPrivate } });

interface Asking extends Installed {
  readonly fixture: SupervisorFixture;
  readonly server: ListeningServer;
  fetchPath(path: string): Promise<string>;
}

async function asking(t: Test): Promise<Asking> {
  const server = await serve(t, (request, response) => {
    if (request.url === '/now') response.end('here');
    if (request.url === '/head/cookies')
      response.setHeader('set-cookie', ['a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT', 'b=2']).end();
    if (request.url === '/head/many')
      response.setHeaders(new Map(Array.from({ length: 2_000 }, (_, at) => [`x-${at}`, 'y']))).end();
  });
  allowPrivate.add(`api.test:${server.port}`);
  const fixture = shared.withNewAccount();
  const made = await fixture.install({ capabilities: ['host.http:api.test'], code: FETCHING });
  const session = await fixture.session();
  const fetchPath = async (path: string) => {
    const input = path.includes(':') ? path : `http://api.test:${server.port}${path}`;
    const { body } = await fixture.call('POST', `/sessions/${session}/commands/${made.slug}__run`, { input });
    return body.text ?? JSON.stringify(body);
  };
  return { ...made, fixture, server, fetchPath };
}

t.test('a plugin gets a response with text and bytes, or an error', async (t) => {
  const { fetchPath, server, fixture, installationId } = await asking(t);
  t.equal(await fetchPath('/now'), '200 here Uint8Array4');
  t.equal(await fetchPath('/head/cookies'), 'a=1; Expires=Wed, 09 Jun 2027 10:18:14 GMT | b=2');
  t.match(await fetchPath('/head/many'), /api\.test sent more than 2,000 response headers$/);
  t.match(await fetchPath('http://other.test/'), /^failed: host\.http\.fetch: other\.test is not a granted host/);
  t.match(await fetchPath('http://169.254.169.254/'), /^failed: host\.http\.fetch: the address contains an IP/);
  await eventually(async () => (await server.open()) === 0);
  await fixture.supervisor.audit.flush();
  const { rows } = await fixture.pool.query('SELECT DISTINCT member, outcome FROM audit WHERE installation_id = $1', [
    installationId,
  ]);
  t.same(
    new Set(rows.map(({ member, outcome }) => `${member} ${outcome}`)),
    new Set(['http.fetch ok', 'http.fetch failed']),
  );
});

const ends: Readonly<Record<string, { what: (asking: Asking) => Promise<void>; reason: RegExp }>> = {
  'fewer grants': {
    what: (asking) => change(asking, `granted_capabilities = '{host.http:other.test}'`),
    reason: /not granted any more/,
  },
  'a pause': { what: (asking) => change(asking, `status = 'paused'`), reason: /not granted any more/ },
  'an uninstall': { what: (asking) => change(asking, `status = 'uninstalling'`), reason: /not granted any more/ },
  'the death of its child': {
    what: async ({ fixture, installationId }) => {
      killProcess(fixture.supervisor.fleet.getPid(installationId));
    },
    reason: /ended|gone|died|killed|SIGKILL/i,
  },
};

async function change({ fixture, installationId }: Asking, what: string): Promise<void> {
  await fixture.pool.query(`UPDATE installations SET ${what}, updated_at = clock_timestamp() WHERE id = $1`, [
    installationId,
  ]);
  await notifyInstallationChanged(fixture.pool, installationId);
}

for (const [name, { what, reason }] of listCases(ends, 'fewer grants', 'the death of its child'))
  t.test(`${name} leaves no socket open`, async (t) => {
    const plugin = await asking(t);
    const { fetchPath, server } = plugin;
    await fetchPath('/now');
    await eventually(async () => (await server.open()) === 0);
    const answer = fetchPath('/never');
    await eventually(async () => (await server.open()) === 3);
    t.equal(connectionEnds(server.port), 6, 'both ends of each');
    await what(plugin);
    t.match(await answer, reason);
    await eventually(async () => (await server.open()) === 0 && connectionEnds(server.port) === 0);
  });
