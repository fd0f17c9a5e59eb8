/** The contents of a process's log, and the values that it must never contain. */
import t from 'tap';
import { Problem } from '../../sdk/contract/errors.ts';
import { createServer } from '../../service/http/application.ts';
import { withLogIds } from '../../service/telemetry/log-ids.ts';
import { openLogger, REDACTED } from '../../service/telemetry/logger.ts';
import { RepeatedErrors } from '../../service/telemetry/repeated-errors.ts';

function logged(write: (logger: ReturnType<typeof openLogger>) => void): string {
  const lines: string[] = [];
  write(openLogger('test', 'info', { write: (line: string) => void lines.push(line) }));
  return lines.join('');
}

t.test('a line is JSON and contains the current ids', async (t) => {
  const text = logged((logger) => {
    withLogIds({ requestId: 'r' }, () => withLogIds({ invocationId: 'i' }, () => logger.warn('inside')));
    logger.info('outside');
  });
  const [inside, outside] = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.match(inside, { name: 'test', msg: 'inside', requestId: 'r', invocationId: 'i' });
  t.notOk('requestId' in outside);
});

t.test('secrets are redacted everywhere in a line', async (t) => {
  const jwt = 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl';
  const text = logged((logger) => {
    logger.error({ err: new Error('cannot connect to postgres://bulkhead:s3cr3t@db.internal:5432/x') }, 'no database');
    logger.info({ headers: { authorization: 'Bearer canary-1', cookie: 'a="canary-2"' } }, 'asked');
    logger.info({ token: 'canary-3', nested: { apiKey: 'canary-4', password: 'canary-5' } }, `sent ${jwt}`);
    logger.info('it said Authorization: Basic Y2FuYXJ5LTY=');
  });
  for (const secret of ['s3cr3t', 'canary', jwt, 'Y2FuYXJ5']) t.notMatch(text, secret);
  t.match(text, 'db.internal:5432', 'the rest of an address stays');
  t.match(text, REDACTED);
  for (const line of text.trim().split('\n')) t.ok(JSON.parse(line), 'and every line is JSON');
});

t.test('a long line of nothing costs little', async (t) => {
  const started = performance.now();
  logged((logger) => logger.info(`${'a://'.repeat(50_000)} ${'"token":"'.repeat(20_000)} ${'eyJ'.repeat(50_000)}`));
  t.ok(performance.now() - started < 5_000);
});

t.test('an error of many requests is reported at once, and then in windows with its number', async (t) => {
  const reports: string[] = [];
  const counted = Promise.withResolvers<void>();
  const report = ({ message }: Error, count: number) => {
    reports.push(`${message} ${count}`);
    if (count > 1) counted.resolve();
  };
  const errors = new RepeatedErrors({ report, windowMs: 5 });
  for (let request = 0; request < 653; request += 1) errors.add(new Error('full'));
  errors.add(new Error('away'));
  t.same(reports, ['full 1', 'away 1'], 'no line a request');
  await counted.promise;
  t.same(reports, ['full 1', 'away 1', 'full 652']);
  errors.close();
  const last = new RepeatedErrors({ report });
  for (let topic = 0; topic < 30; topic += 1) last.add(new Error(`one of many ${topic}`));
  last.close();
  t.equal(reports.length, 3 + 20 + 2, 'many different ones share a count');
});

t.test('an error of the database is logged without its connection', async (t) => {
  const error = Object.assign(new Error('terminated'), { code: '57P01', client: { secretKey: 829917058 } });
  const { err } = JSON.parse(logged((logger) => logger.error({ err: error }, 'no database')));
  t.match(err, { type: 'Error', message: 'terminated', code: '57P01', stack: /logger\.test/ });
  t.notOk('client' in err);
});

t.test('an outage that many requests meet is one line, and one more with their number', async (t) => {
  const lines: string[] = [];
  const logger = openLogger('test', 'info', { write: (line: string) => void lines.push(line) });
  const app = createServer({ logger, bodyMaxBytes: 1_000, server: {} });
  app.get('/', async () => {
    throw new Problem('unavailable', 'The service is full. Retry after 1 s.', { retryAfter: 1 });
  });
  for (let request = 0; request < 50; request += 1) t.equal((await app.inject('/')).statusCode, 503);
  t.equal(lines.length, 1);
  await app.close();
  t.strictSame(
    lines.map((line) => JSON.parse(line)).map(({ msg, count }) => ({ msg, count })),
    [1, 49].map((count) => ({ msg: 'The service is full. Retry after 1 s.', count })),
  );
});
