/** The first things anybody tries who has got out of the realm. */
import type { Probe } from './probe.ts';

export const files: readonly Probe[] = [
  { name: 'read a host file', code: `return need('fs').readFileSync('$secretFile', 'utf8');` },
  { name: 'read it by promise', code: `return await need('fs/promises').readFile('$secretFile', 'utf8');` },
  { name: 'read it by buffer path', code: `return need('fs').readFileSync(Buffer.from('$secretFile'), 'utf8');` },
  {
    name: 'read it by a path that climbs',
    code: `return need('fs').readFileSync('/child.cjs/../$secretFile', 'utf8');`,
  },
  { name: 'open it as a blob', code: `return await (await need('fs').openAsBlob('$secretFile')).text();` },
  { name: 'read the accounts', code: `return need('fs').readFileSync('/etc/passwd', 'utf8');` },
  { name: 'learn that it exists', code: `return need('fs').realpathSync('$secretFile');` },
  { name: 'learn that it exists, natively', code: `return need('fs').realpathSync.native('$secretFile');` },
  {
    name: 'list the root',
    code: `return need('fs').readdirSync('/').filter((name) => !['node', 'child.cjs', 'child.cache', 'lib', 'lib64', 'usr'].includes(name)).join();`,
  },
  { name: 'write a file', code: `need('fs').writeFileSync('/tmp/probe', 'x'); return 'written';` },
  { name: 'write a file at the root', code: `need('fs').writeFileSync('/probe', 'x'); return 'written';` },
  { name: 'remove a host file', code: `need('fs').unlinkSync('$secretFile'); return 'removed';` },
  { name: 'rename over a host file', code: `need('fs').renameSync('/child.cjs', '$secretFile'); return 'replaced';` },
  { name: 'empty a host file', code: `need('fs').truncateSync('$secretFile', 0); return 'emptied';` },
  { name: 'make a folder', code: `return need('fs').mkdtempSync('/tmp/probe-');` },
  { name: 'change the node binary', code: `need('fs').chmodSync('/node', 0o777); return 'changed';` },
  {
    name: 'open a database file',
    code: `const { DatabaseSync } = need('sqlite'); new DatabaseSync('/tmp/probe.db').exec('create table t(a)'); return 'made';`,
  },
  {
    name: 'attach a database file',
    code: `const { DatabaseSync } = need('sqlite'); new DatabaseSync(':memory:').exec("attach '$secretFile' as s"); return 'attached';`,
  },
  { name: 'read by internal binding', code: `return way.binding('fs').internalModuleReadJSON('$secretFile');` },
  { name: 'load it as environment', code: `way.loadEnvFile('$secretFile'); return 'loaded';` },
  { name: 'require it', code: `return need('module').createRequire('/')('$secretFile');` },
  { name: 'write a report', code: `return way.report.writeReport('/tmp/probe.json');` },
  { name: 'write a heap snapshot', code: `return need('v8').writeHeapSnapshot('/tmp/probe.heapsnapshot');` },
  {
    name: 'import a built-in module',
    code: `return Function('return import("node:fs")')().then((fs) => fs.readFileSync('$secretFile', 'utf8'));`,
  },
  {
    name: 'use the error of an import',
    code: `return Function('return import("x")')().catch((e) => e.constructor.constructor('return process')().getBuiltinModule('fs').readFileSync('$secretFile', 'utf8'));`,
  },
];
export const sockets: readonly Probe[] = [
  {
    name: 'connect to a port',
    code: `return await soon((ok, no) => need('net').connect($port, '127.0.0.1', () => ok('connected')).on('error', no));`,
  },
  {
    name: 'connect to a port, IPv6',
    code: `return await soon((ok, no) => need('net').connect($port, '::1', () => ok('connected')).on('error', no));`,
  },
  {
    name: 'connect to a socket file',
    code: `return await soon((ok, no) => need('net').connect('$socket', () => ok('connected')).on('error', no));`,
  },
  {
    name: 'connect to an abstract socket',
    code: `return await soon((ok, no) => need('net').connect('\\0bulkhead-probe', () => ok('connected')).on('error', no));`,
  },
  {
    name: 'send a datagram',
    code: `return await soon((ok, no) => need('dgram').createSocket('udp4').on('error', no).send('x', $port, '127.0.0.1', (e) => e ? no(e) : ok('sent')));`,
  },
  {
    name: 'listen',
    code: `return await soon((ok, no) => need('net').createServer().on('error', no).listen(0, '127.0.0.1', () => ok('listening')));`,
  },
  {
    name: 'fetch',
    code: `return (await (way ? need('vm').runInThisContext('fetch') : fetch)('http://127.0.0.1:$port/')).status;`,
  },
  {
    name: 'the metadata service',
    code: `return await soon((ok, no) => need('http').get('http://169.254.169.254/', () => ok('answered')).on('error', no));`,
  },
  {
    name: 'look a name up',
    code: `return await soon((ok, no) => need('dns').lookup('localhost.localdomain.', (e, a) => e ? no(e) : ok(a)));`,
  },
  {
    name: 'resolve a name',
    code: `return await soon((ok, no) => need('dns').resolve4('example.com', (e, a) => e ? no(e) : ok(a)));`,
  },
  { name: 'open the inspector', code: `need('inspector').open(0, '127.0.0.1'); return need('inspector').url();` },
];
export const secrets: readonly Probe[] = [
  {
    name: 'read the environment',
    code: `return Object.entries(way.env).filter(([key]) => key !== 'PWD' && key !== 'OLDPWD' && key !== '_' && key !== 'SHLVL').map(String).join();`,
  },
  {
    name: 'read the environment by report',
    code: `return Object.entries(way.report.getReport().environmentVariables).filter(([key]) => !['PWD', 'OLDPWD', '_', 'SHLVL'].includes(key)).map(String).join();`,
  },
  { name: 'read /proc/self/environ', code: `return need('fs').readFileSync('/proc/self/environ', 'utf8');` },
  {
    name: 'read the command line of others',
    code: `return need('fs').readFileSync('/proc/$hostPid/cmdline', 'utf8');`,
  },
  { name: 'read own memory map', code: `return need('fs').readFileSync('/proc/self/maps', 'utf8');` },
  {
    name: 'read inherited descriptors',
    code: `const fs = need('fs'); for (let fd = 3; fd < 64; fd += 1) { try { if (fs.fstatSync(fd).isFile()) return fs.readFileSync(fd, 'utf8').slice(0, 50) || 'a file'; } catch {} }`,
  },
];
export const processes: readonly Probe[] = [
  { name: 'signal the supervisor', code: `return way.kill($hostPid, 0);` },
  { name: 'stop a sibling', code: `return way.kill($siblingPid, 'SIGSTOP');` },
  {
    name: 'signal the parent',
    code: `if (way.ppid === 0) throw new Error('no parent'); return way.kill(way.ppid, 0);`,
  },
  { name: 'signal everybody', code: `return way.kill(-1, 0);` },
  { name: 'debug the supervisor', code: `way._debugProcess($hostPid); return 'signalled';` },
  { name: 'be nice to the supervisor', code: `need('os').setPriority($hostPid, 10); return 'set';` },
  { name: 'run a program', code: `return need('child_process').execFileSync('/node', ['-v']).toString();` },
  { name: 'run a shell', code: `return need('child_process').execSync('id').toString();` },
  { name: 'become another program', code: `way.execve('/bin/sh', ['sh', '-c', 'id'], {}); return 'became';` },
  { name: 'change the user', code: `way.setuid(0); return 'root';` },
  {
    name: 'load native code',
    code: `way.dlopen({ exports: {} }, '/lib/x86_64-linux-gnu/libc.so.6'); return 'loaded';`,
  },
  {
    name: 'start a thread with more rights',
    code: `const { Worker } = need('worker_threads'); return await soon((ok, no) => new Worker("require('worker_threads').parentPort.postMessage(require('fs').readFileSync('$secretFile','utf8'))", { eval: true, execArgv: [] }).on('message', ok).on('error', no));`,
  },
];
