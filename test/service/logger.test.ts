/** What a process's log shows, and what never gets into it. */
import t from 'tap';
import { withLogIds } from '../../service/telemetry/log-ids.ts';
import { openLogger, REDACTED } from '../../service/telemetry/logger.ts';

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
