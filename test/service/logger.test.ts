/** The contents of a process's log, and the values that it must never contain. */
import { Writable } from 'node:stream';
import t from 'tap';
import { Problem } from '../../sdk/contract/errors.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { createServer } from '../../service/http/application.ts';
import { ErrorLog, UnrepeatedError } from '../../service/telemetry/error-log.ts';
import { withLogIds } from '../../service/telemetry/log-ids.ts';
import { openBoundedOutput, openLogger, REDACTED } from '../../service/telemetry/logger.ts';
import { RepeatedErrors } from '../../service/telemetry/repeated-errors.ts';
import { eventually } from '../runner/eventually.ts';

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
  t.notMatch(
    logged((logger) => logger.info(`sent eyJ${'a'.repeat(8_000)}.canary.canary`)),
    'canary',
    'behind a long header',
  );
  for (const secret of ['s3cr3t', 'canary', jwt, 'Y2FuYXJ5']) t.notMatch(text, secret);
  t.match(text, 'db.internal:5432', 'the rest of an address stays');
  t.match(text, REDACTED);
  for (const line of text.trim().split('\n')) t.ok(JSON.parse(line), 'and every line is JSON');
});

t.test('a long line of nothing costs little', async (t) => {
  const before = process.cpuUsage();
  logged((logger) => logger.info(`${'a://'.repeat(50_000)} ${'"token":"'.repeat(20_000)} ${'eyJ'.repeat(50_000)}`));
  logged((logger) => logger.info('eyJaaaaaaaa-'.repeat(20_000)));
  const { user, system } = process.cpuUsage(before);
  t.ok(user + system < 5_000_000, `${user + system} μs of processor time`);
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

/** A log whose database is away while the returned object says so. */
function openErrorLog() {
  const lines: { level: number; msg: string; errors?: number; reason?: string }[] = [];
  const logger = openLogger('test', 'info', { write: (line: string) => void lines.push(JSON.parse(line)) });
  const database = { reason: null as string | null };
  const log = new ErrorLog({ logger, checkDatabase: async () => database.reason, checkEveryMs: 1 });
  return {
    log,
    lines,
    database,
    isLogged: (msg: RegExp) => eventually(() => lines.some((line) => msg.test(line.msg))),
  };
}
const refused = () => Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });

t.test('a database that goes away is one line, and one when it is back', async (t) => {
  const { log, lines, database, isLogged } = openErrorLog();
  database.reason = 'the database is unavailable';
  withLogIds({ installationId: 'i' }, () => {
    for (let task = 0; task < 40; task += 1) log.add(refused());
  });
  await isLogged(/is unavailable/);
  log.add(refused());
  log.add(new Error('another fault'));
  database.reason = 'too many connections';
  await isLogged(/for another reason/);
  database.reason = null;
  await isLogged(/available again/);
  // As `RepeatedErrors` reports what it counted in the outage.
  log.add(refused(), 9);
  await new Promise(setImmediate);
  t.match(lines, [
    { level: 50, msg: /^the database is unavailable; background tasks/, reason: 'the database is unavailable' },
    { level: 50, msg: 'a background task failed and will be retried', err: { message: 'another fault' } },
    { level: 50, msg: 'the database is unavailable for another reason', reason: 'too many connections' },
    { level: 40, msg: /^the database is available again after \d+ s$/, errors: 41 },
  ]);
  t.equal(lines.length, 4);
  t.notOk(
    lines.some((line) => 'installationId' in line),
    'the plugin whose call failed first has not caused it',
  );
});

t.test('connections that are lost while the database is there are one line', async (t) => {
  const { log, lines, database, isLogged } = openErrorLog();
  for (let connection = 0; connection < 4; connection += 1) log.add(refused());
  await isLogged(/4 times in the last minute/);
  database.reason = 'the database is unavailable';
  log.close();
  log.add(refused());
  t.match(lines[1], { msg: 'a background task failed and will be retried' }, 'a closed log follows no outage');
});

t.test('an error that nothing repeats says so itself', (t) => {
  const { log, lines } = openErrorLog();
  log.add(new UnrepeatedError('A file is lost. See the runbook.'));
  t.match(lines, [{ level: 50, msg: 'A file is lost. See the runbook.' }]);
  t.end();
});

t.test('lines for a reader that does not read are dropped beyond a limit', (t) => {
  const output = new Writable({ write: () => undefined });
  const { write } = openBoundedOutput(output);
  const line = 'x'.repeat(MIB);
  for (let count = 0; count < 40; count += 1) write(line);
  t.equal(output.writableLength, 16 * MIB);
  t.end();
});
