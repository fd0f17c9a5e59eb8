/** `weather`: a tool that asks two hosts over `host.http`. */
import t from 'tap';
import { startSupervisorFixture } from '../supervisor/supervisor-fixture.ts';
import { readExample, startVendor } from './example.ts';

const requests: URL[] = [];
let status = 200;
const vendor = await startVendor(t, ['api.open-meteo.com', 'geocoding-api.open-meteo.com'], (request, response) => {
  const url = new URL(request.url ?? '', `http://${request.headers.host}`);
  requests.push(url);
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' });
  if (url.pathname === '/v1/forecast') {
    const current = { temperature_2m: 18.4, wind_speed_10m: 7.2, relative_humidity_2m: 63 };
    return void response.end(JSON.stringify({ current }));
  }
  const bern = { name: 'Bern', country: 'Switzerland', latitude: 46.95, longitude: 7.45 };
  response.end(JSON.stringify(url.searchParams.get('name') === 'Bern' ? { results: [bern] } : {}));
});
const fixture = await startSupervisorFixture(t, { http: vendor.http });
const { addresses } = vendor;
await fixture.install(await readExample('weather', { addresses }));
const imperial = await readExample('weather', { addresses, settings: { units: 'imperial' } });
await fixture.install({ ...imperial, slug: 'weather-us' });

async function now(args: object, slug = 'weather') {
  requests.length = 0;
  return fixture.call('POST', `/sessions/${await fixture.session()}/tools/${slug}__now`, { arguments: args });
}

t.test('a place is looked up, then its weather', async (t) => {
  const { body } = await now({ place: 'Bern' });
  t.equal(body.content?.[0].text, 'Bern, Switzerland: 18.4 °C, wind 7 km/h, 63 % humidity');
  t.same(
    requests.map(({ hostname }) => hostname),
    ['geocoding-api.open-meteo.com', 'api.open-meteo.com'],
  );
  t.match(Object.fromEntries(requests[1]?.searchParams ?? []), { latitude: '46.95', temperature_unit: 'celsius' });
});

t.test('in the units of the setting', async (t) => {
  const { body } = await now({ place: 'Bern' }, 'weather-us');
  t.match(body.content?.[0].text, /18\.4 °F, wind 7 mph/);
  t.match(Object.fromEntries(requests[1]?.searchParams ?? []), {
    temperature_unit: 'fahrenheit',
    wind_speed_unit: 'mph',
  });
});

t.test('what an agent writes stays a value', async (t) => {
  const place = 'Atlantis&count=9#/../x';
  const { body } = await now({ place });
  t.match(body, { isError: true });
  t.ok(body.content?.[0].text.includes(`There is no place named “${place}”.`));
  t.equal(requests[0]?.searchParams.get('name'), place);
  t.equal(requests[0]?.searchParams.get('count'), '1');
  t.equal((await now({})).status, 422, 'arguments that do not fit never reach it');
  t.equal(requests.length, 0);
});

t.test('a vendor in trouble is a tool that failed', async (t) => {
  status = 503;
  t.teardown(() => {
    status = 200;
  });
  const { body } = await now({ place: 'Bern' });
  t.match(body, { isError: true });
  t.match(body.content?.[0].text, /geocoding-api\.open-meteo\.com.* answered 503/);
});
