/** The code cache of the child program is one that V8 accepts in a child, and nothing depends on it. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { enableCompileCache, getCompileCacheDir } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { limits } from '../../../sdk/contract/limits.ts';
import { cacheProgram } from '../../../supervisor/jail/cached-program.ts';
import { makeJail } from '../../../supervisor/jail/jail.ts';
import { nodeFlags } from '../../../supervisor/jail/node-flags.ts';
import { childProgram } from '../../runner/child-program.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';
import { bundleOf, testChild, testJail } from '../children/jailed-child.ts';

const program = await childProgram();

/** Whether V8 accepts the code cache under these flags. */
async function isAccepted(file: string, flags: readonly string[]): Promise<boolean> {
  const read = `
    const file = require('node:fs').readFileSync(process.argv[1]);
    const end = 4 + file.readUInt32LE(0);
    const options = { cachedData: file.subarray(end) };
    console.log(new (require('node:vm').Script)(file.latin1Slice(4, end), options).cachedDataRejected);`;
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, '-e', read, file]);
  return stdout.trim() === 'false';
}

t.test('V8 accepts it with the flags of children, whatever their heap', async (t) => {
  const file = join(await temporaryFolder(t), 'cache');
  await writeFile(file, (await cacheProgram(program)) ?? '');
  const grant = `--allow-fs-read=${file}`;
  for (const heapMegabytes of [limits.heapMegabytes, 512])
    t.ok(await isAccepted(file, [...nodeFlags(heapMegabytes, true), grant]), `${heapMegabytes} MB`);
  t.notOk(await isAccepted(file, ['--no-opt']), 'and not with others');
});

t.test('V8 accepts the code cache of Node’s own modules in a child', async (t) => {
  const read = `
    require('node:net');
    const { internalBinding } = require('internal/test/binding');
    const { compiledWithCache, compiledWithoutCache } = internalBinding('builtins').getCacheUsage();
    console.log(JSON.stringify([compiledWithCache.has('net'), [...compiledWithoutCache]]));`;
  const flags = [...nodeFlags(limits.heapMegabytes, true), '--expose-internals'];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, '-e', read]);
  t.same(JSON.parse(stdout), [true, []]);
});

t.test('V8 optimizes a function of a child after some hundred calls, with its last compiler only', async (t) => {
  const flagsFile = new URL('../../../sandbox-child/compiler-flags.ts', import.meta.url);
  const run = `
    import { setFlagsFromString } from 'node:v8';
    import { setCompilerFlags } from ${JSON.stringify(flagsFile.href)};
    setFlagsFromString('--allow-natives-syntax');
    const readStatus = new Function('f', 'return %GetOptimizationStatus(f)');
    setCompilerFlags();
    const [byMaglev, byTurbofan] = [1 << 4, 1 << 5];
    const hook = (fields) => Object.keys(fields).map((name) => name + fields[name]).join(' ');
    let calls = 0;
    while (calls < 20_000 && (readStatus(hook) & (byMaglev | byTurbofan)) === 0) hook({ at: String((calls += 1)) });
    console.log(JSON.stringify({ calls, isLast: (readStatus(hook) & byTurbofan) !== 0 }));`;
  const flags = [...nodeFlags(limits.heapMegabytes, false), '--input-type=module', '-e', run];
  const { calls, isLast } = JSON.parse((await promisify(execFile)(process.execPath, flags)).stdout);
  t.ok(isLast);
  t.ok(calls < 2_000, `${calls} calls`);
});

t.test('a child starts without a code cache, and with one that V8 rejects', async (t) => {
  const cached = (await cacheProgram(program)) ?? Buffer.alloc(0);
  const source = cached.subarray(0, 4 + cached.readUInt32LE(0));
  const rejected = Buffer.concat([source, randomBytes(64)]);
  for (const [name, cachedProgram] of Object.entries({ cached, rejected, none: null }))
    for (const os of amount({ quick: [true], soak: [true, false] })) {
      const child = testChild(t, await testJail(t, { program, cachedProgram, walls: { node: true, os } }));
      await t.resolves(child.load(bundleOf('')), `${name}, ${os ? 'with' : 'without'} bubblewrap`);
    }
});

t.test('supervisors that start one after another leave one file of it', async (t) => {
  const directory = await temporaryFolder(t);
  const [cached, other] = [await cacheProgram(program), await cacheProgram(`/* another */ ${program}`)];
  const source = cached?.subarray(0, 4 + cached.readUInt32LE(0)) ?? Buffer.alloc(0);
  const listCaches = async (): Promise<string[]> =>
    (await readdir(directory)).filter((name) => name.endsWith('.cache'));
  // V8 writes another code cache each time.
  for (const codeCache of [randomBytes(64), randomBytes(64)])
    makeJail({ directory, program, cachedProgram: Buffer.concat([source, codeCache]) });
  const [name = '', ...more] = await listCaches();
  t.same(more, []);
  makeJail({ directory, program, cachedProgram: cached });
  t.same(await readFile(join(directory, name)), cached, 'the last one');
  makeJail({ directory, program, cachedProgram: other });
  t.equal((await listCaches()).length, 2, 'and one of another program');
});

t.test('a kept file that is damaged is made again', async (t) => {
  if (getCompileCacheDir() === undefined) enableCompileCache(join(await temporaryFolder(t), 'cache'));
  // A program of its own: other processes use the file of the real one.
  const own = `/* ${randomBytes(8).toString('hex')} */`;
  const folder = join(getCompileCacheDir() ?? '', 'child-programs');
  const list = (): Promise<string[]> => readdir(folder).catch(() => []);
  // They write there at the same time, too.
  const isOwn = async (file: string) => (await readFile(join(folder, file)).catch(() => '')).includes(own);
  const before = await list();
  const made = await cacheProgram(own);
  let name = '';
  for (const file of await list()) if (!before.includes(file) && (await isOwn(file))) name = file;
  const kept = await readFile(join(folder, name));
  t.same(await cacheProgram(own), made, 'the kept one');
  kept.writeUInt8(kept.readUInt8(kept.length - 1) ^ 1, kept.length - 1);
  await writeFile(join(folder, name), kept);
  t.ok(made?.subarray(0, 8).equals((await cacheProgram(own))?.subarray(0, 8) ?? Buffer.alloc(0)));
  t.notSame(await readFile(join(folder, name)), kept, 'not the damaged one');
  await rm(join(folder, name));
  // A folder, which no file can replace.
  await mkdir(join(folder, name));
  t.ok(await cacheProgram(own));
  t.same(
    (await list()).filter((file) => file.startsWith(name)),
    [name],
    'a file that cannot be kept is removed',
  );
  await rm(join(folder, name), { recursive: true });
});

t.test('a program that cannot be run has none', async (t) => {
  t.equal(await cacheProgram('throw new Error();'), null);
  t.equal(await cacheProgram(`'\u{1F600}'`), null, 'nor has one with characters that would be lost');
});
