/** The origins that the console's page may call follow the issuer's discovery document. */
import t from 'tap';
import { watchIssuer } from '../../../api/site/issuer-reach.ts';
import { serve } from '../../fixtures/listening-server.ts';
import { eventually } from '../../runner/eventually.ts';

const MINUTE = 60_000;

t.test('the discovery document is fetched again after ten minutes', async (t) => {
  let now = 0;
  let requests = 0;
  let errors = 0;
  /** Null: the issuer is unavailable. */
  let endpoint: string | null = 'https://first.example/token';
  const { url } = await serve(t, (_request, response) => {
    requests += 1;
    if (endpoint === null) response.writeHead(503);
    response.end(JSON.stringify({ token_endpoint: endpoint }));
  });
  const listOrigins = watchIssuer(
    url,
    () => {
      errors += 1;
    },
    () => now,
  );
  t.same(listOrigins(), [url], 'before the first answer');
  await eventually(() => listOrigins().includes('https://first.example'));
  endpoint = null;
  now += 10 * MINUTE;
  listOrigins();
  await fetch(url);
  t.equal(requests, 2, 'the document is new enough');
  now += 1;
  await eventually(() => {
    t.same(listOrigins(), [url, 'https://first.example'], 'kept while the issuer is unavailable');
    return errors > 0;
  });
  endpoint = 'https://second.example/token';
  await eventually(() => listOrigins().includes('https://second.example'));
  t.same(listOrigins(), [url, 'https://second.example']);
});
