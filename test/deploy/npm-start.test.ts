/** The real `npm start`: a signal to npm reaches the service, and a start right after a kill takes over. */
import { join } from 'node:path';
import t from 'tap';
import { temporaryFolder, testDatabase } from '../runner/harness.ts';
import { freePorts, startNpm } from './service-fixture.ts';

t.test('npm start leaves nothing behind', async (t) => {
  const { url } = await testDatabase(t);
  const env = { ...(await freePorts()), DATABASE_URL: url, DATA_DIR: join(await temporaryFolder(t), 'data') };

  const ready = /^bulkhead ready /;

  const first = startNpm(t, env);
  await first.line(/^starting the supervisor$/);
  await first.processes();
  first.kill('SIGKILL');
  t.same(await first.leftovers(), [], 'without npm the service stops by itself');

  const second = startNpm(t, env);
  await second.line(ready);
  const api = (await second.processes()).find(({ command }) => command.includes('api/main.ts'));
  // It holds its ports until it goes on and drains.
  process.kill(Number(api?.pid), 'SIGSTOP');
  process.kill(-second.pid, 'SIGKILL');
  const third = startNpm(t, env);
  await third.line(/^waiting for the processes of a killed npm start to end$/);
  process.kill(Number(api?.pid), 'SIGCONT');
  await third.line(ready);
  t.same(await second.leftovers(), []);

  const running = await third.processes();
  t.ok(running.length >= 4, 'npm, npm start, API and supervisor');
  // To npm alone, as `kill`, a supervisor of processes or a container sends it.
  third.kill('SIGTERM');
  t.match((await third.exited).stdout, /stopping\nthe API stopped\nthe supervisor stopped$/);
  t.same(await third.leftovers(), []);
});
