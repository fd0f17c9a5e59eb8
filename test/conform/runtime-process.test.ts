/** A runtime that is started by another program is killed and stopped with it. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import t from 'tap';
import { RuntimeProcess, type UserMessage } from '../../conform/runtime/runtime-process.ts';
import { eventually } from '../runner/eventually.ts';

/** Answers each message with the number of its process. */
const RUNTIME = `
  const lines = require('node:readline').createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    const { id } = JSON.parse(line);
    console.log(JSON.stringify({ id, text: String(process.pid) }));
    console.log(JSON.stringify({ id, end: 'done' }));
  });`;
const message: UserMessage = { session: 's', id: 'm1', from: 'ann', text: 'hello', trigger: 'user' };

/** Starts the runtime from a shell that waits for it. Returns the number of the runtime's own process. */
async function startByShell() {
  const started = new RuntimeProcess(['sh', '-c', '"$0" -e "$1"; exit $?', process.execPath, RUNTIME], process.env);
  const { text } = await started.send(message).waitForAnswer();
  return { started, pid: Number(text) };
}
/** A process that has ended may stay until its parent notices. */
function isGone(pid: number): boolean {
  try {
    return /^State:\s+[XZ]/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'));
  } catch {
    return true;
  }
}

t.test('killed, no process of it is left, and answers that it owes have ended', async (t) => {
  const { started, pid } = await startByShell();
  t.notOk(isGone(pid));
  await started.kill();
  t.ok(started.isOver);
  await eventually(async () => isGone(pid));
  await t.rejects(started.send(message).end(), {
    message: /the runtime ended before its answer .* It ended with SIGKILL/,
  });
  await started.kill();
});

t.test('stopped, it ends by itself when its input ends', async (t) => {
  const { started, pid } = await startByShell();
  await started.stop();
  t.ok(started.isOver);
  await eventually(async () => isGone(pid));
});

/** Ends each answer at once, and shows a text after it. */
const LATE_RUNTIME = `
  const lines = require('node:readline').createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    const { id } = JSON.parse(line);
    console.log(JSON.stringify({ id, end: 'failed', reason: 'that is classified' }));
    console.log(JSON.stringify({ id, text: 'Wholemeal is classified.' }));
  });`;

t.test('text after the end of an answer is noted', async (t) => {
  const started = new RuntimeProcess([process.execPath, '-e', LATE_RUNTIME], process.env);
  t.teardown(() => started.kill());
  const exchange = started.send(message);
  t.equal((await exchange.end()).kind, 'failed');
  await started.send({ ...message, id: 'm2' }).end();
  t.equal(exchange.lateText, 'Wholemeal is classified.');
});

t.test('a program that does not exist has ended', async (t) => {
  const started = new RuntimeProcess(['/no/such/program'], process.env);
  await t.rejects(started.send(message).end(), { message: /It did not start/ });
  await started.kill();
  await started.stop();
});

const MODULE = new URL('../../conform/runtime/runtime-process.ts', import.meta.url).href;
/** Starts a runtime that does not heed the end of its input, prints its number and exits. */
const CHECK = `
  import { RuntimeProcess } from '${MODULE}';
  const started = new RuntimeProcess(
    ['sh', '-c', '"$0" -e "$1"; exit $?', process.execPath, process.argv[1] + ' setInterval(() => undefined, 1_000);'],
    process.env,
  );
  const message = { session: 's', id: 'm1', from: 'ann', text: 'hello', trigger: 'user' };
  console.log((await started.send(message).waitForAnswer()).text);
  process.exit();`;

t.test('no process of it is left when the check exits', async (t) => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', CHECK, RUNTIME]);
  const pid = Number(stdout);
  t.ok(pid > 0);
  await eventually(async () => isGone(pid));
});
