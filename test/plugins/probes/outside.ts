/** The world outside: networks, processes, what the machine tells of itself. */
import { type Rows, rowsOf } from './probe.ts';

const network: Rows = {
  'IPv6 mapped':
    "return await soon((ok, no) => need('net').connect($port, '::ffff:127.0.0.1', () => ok('connected')).on('error', no));",
  'the any address':
    "return await soon((ok, no) => need('net').connect($port, '0.0.0.0', () => ok('connected')).on('error', no));",
  'a host name':
    "return await soon((ok, no) => need('net').connect($port, 'localhost', () => ok('connected')).on('error', no));",
  TLS: "return await soon((ok, no) => need('tls').connect($port, '127.0.0.1', () => ok('connected')).on('error', no));",
  'HTTP/2':
    "return await soon((ok, no) => need('http2').connect('http://127.0.0.1:$port').on('connect', () => ok('connected')).on('error', no));",
  'a WebSocket':
    "return await soon((ok, no) => { const W = need('vm').runInThisContext('WebSocket'); const w = new W('ws://127.0.0.1:$port'); w.onopen = ok; w.onerror = no; });",
  'an EventSource':
    "return await soon((ok, no) => { const E = need('vm').runInThisContext('EventSource'); const w = new E('http://127.0.0.1:$port'); w.onopen = ok; w.onerror = no; });",
  'UDP over IPv6':
    "return await soon((ok, no) => need('dgram').createSocket('udp6').on('error', no).send('x', $port, '::1', (e) => e ? no(e) : ok('sent')));",
  'a bound UDP socket':
    "return await soon((ok, no) => need('dgram').createSocket('udp4').on('error', no).bind(0, () => ok('bound')));",
  multicast:
    "return await soon((ok, no) => { const s = need('dgram').createSocket('udp4').on('error', no); s.bind(0, () => { s.addMembership('224.0.0.1'); ok('joined'); }); });",
  'a listener on all addresses':
    "return await soon((ok, no) => need('http').createServer().on('error', no).listen(0, () => ok('listening')));",
  'an abstract listener':
    "return await soon((ok, no) => need('net').createServer().on('error', no).listen('\\0probe', () => ok('listening')));",
  'a name server of its own':
    "const r = new (need('dns').Resolver)(); r.setServers(['127.0.0.1:$port']); return await soon((ok, no) => r.resolve4('a.b', (e, a) => e ? no(e) : ok(a)));",
  'a reverse look-up': "return await soon((ok, no) => need('dns').reverse('127.0.0.1', (e, a) => e ? no(e) : ok(a)));",
  'a service look-up':
    "return await soon((ok, no) => need('dns').lookupService('127.0.0.1', 22, (e, a) => e ? no(e) : ok(a)));",
  'an import over HTTP': 'return await Function(\'return import("http://127.0.0.1:$port/x.js")\')();',
  'a QUIC endpoint': "return need('quic').listen(() => 0) && 'listening';",
  'Node tells of the network':
    "const found = Object.values(need('os').networkInterfaces()).flat().filter((i) => !i.internal); return found.map((i) => i.address).join();",
  'a debugger port by signal':
    "way.kill(way.pid, 'SIGUSR1'); return await soon((ok, no) => need('net').connect(9229, '127.0.0.1', () => ok('connected')).on('error', no));",
};

const processes: Rows = {
  'SIGKILL to process 1 of the host': 'if (way.pid === 1) throw 0; return way.kill(1, 0);',
  'SIGKILL to the group of the supervisor': 'return way.kill(-$hostPid, 0);',
  'SIGTERM to a sibling': "return way.kill($siblingPid, 'SIGTERM');",
  'SIGCONT to a sibling': "return way.kill($siblingPid, 'SIGCONT');",
  'a signal by internal binding': "const e = way._kill($siblingPid, 19); if (e) throw e; return 'stopped';",
  spawn:
    "return await soon((ok, no) => need('child_process').spawn('/node', ['-v']).on('spawn', () => ok('spawned')).on('error', no));",
  'spawn a shell': "return await soon((ok, no) => need('child_process').exec('id', (e, out) => e ? no(e) : ok(out)));",
  spawnSync:
    "const r = need('child_process').spawnSync('/node', ['-v']); if (r.error) throw r.error; return 'spawned';",
  'spawn with a detached group':
    "return await soon((ok, no) => need('child_process').spawn('/node', ['-v'], { detached: true }).on('spawn', () => ok('spawned')).on('error', no));",
  'a worker':
    "return await soon((ok, no) => new (need('worker_threads').Worker)('data:text/javascript,', {}).on('online', () => ok(way.permission && 'online')).on('error', no));",
  'a worker with other flags':
    "return await soon((ok, no) => new (need('worker_threads').Worker)(\"require('worker_threads').parentPort.postMessage(require('fs').readFileSync('$secretFile','utf8'))\", { eval: true, execArgv: ['--allow-fs-read=*'] }).on('message', ok).on('error', no));",
  'a worker with another environment':
    "return await soon((ok, no) => new (need('worker_threads').Worker)(\"require('worker_threads').parentPort.postMessage(process.env.BULKHEAD_CANARY)\", { eval: true, env: need('worker_threads').SHARE_ENV }).on('message', ok).on('error', no));",
  setgid: "way.setgid(0); return 'root';",
  setgroups: "way.setgroups([0]); return 'root';",
  initgroups: "way.initgroups('root', 0); return 'root';",
  seteuid: "way.seteuid(0); return 'root';",
  'be nice to oneself': "need('os').setPriority(0, -20); return need('os').getPriority(0) === -20 && 'more';",
  'process.dlopen of a file': "way.dlopen({ exports: {} }, '$secretFile'); return 'loaded';",
  'require of an addon': "return need('module').createRequire('/')('/tmp/x.node');",
  'process.execve of Node':
    "way.execve('/node', ['node', '-e', 'require(\"fs\").writeFileSync(\"/tmp/probe\",\"x\")'], {}); return 'became';",
  'a title': "way.title = 'sshd'; return need('fs').readFileSync('/proc/self/comm', 'utf8');",
};

const told: Rows = {
  'the arguments of the process':
    "return way.argv.concat(way.execArgv).filter((a) => /bulkhead|canary|DATABASE/i.test(a) && a !== '$program').join();",
  'the environment by worker data': "return Object.keys(need('worker_threads').workerData ?? {}).join();",
  'the environment by a new context': "return need('vm').runInThisContext('process.env.BULKHEAD_CANARY');",
  NODE_OPTIONS: 'return way.env.NODE_OPTIONS;',
  'the database URL': 'return way.env.DATABASE_URL ?? way.env.PGPASSWORD;',
  'the user': "const u = need('os').userInfo(); return u.uid !== 65534 && u.uid !== $uid && u.username;",
  'the home folder': "return need('fs').readdirSync(need('os').homedir()).join();",
  'the host name':
    "return need('os').hostname() === '$hostname' && need('os').hostname() !== 'plugin' && need('os').hostname();",
  'a heap scan for a canary':
    "return need('v8').getHeapSnapshot().read()?.includes([...'$yranac'].reverse().join(''));",
  'a core dump':
    "way.report.excludeEnv = false; return Object.keys(way.report.getReport().environmentVariables).includes('BULKHEAD_CANARY');",
  'the credentials of the kernel': "return need('fs').readFileSync('/proc/self/status', 'utf8');",
  'the mounts': "return need('fs').readFileSync('/proc/self/mountinfo', 'utf8');",
  'the control group': "return need('fs').readFileSync('/proc/self/cgroup', 'utf8');",
  'the kernel log': "return need('fs').readFileSync('/dev/kmsg', 'utf8');",
  'the users': "return need('fs').readFileSync('/etc/shadow', 'utf8');",
  'the resolver': "return need('fs').readFileSync('/etc/resolv.conf', 'utf8');",
  'the hosts': "return need('fs').readFileSync('/etc/hosts', 'utf8');",
  'the machine id': "return need('fs').readFileSync('/etc/machine-id', 'utf8');",
  'the secrets of a container':
    "return need('fs').readdirSync('/var/run/secrets').join() || need('fs').readdirSync('/run/secrets').join();",
  'the socket of Docker':
    "return await soon((ok, no) => need('net').connect('/var/run/docker.sock', () => ok('connected')).on('error', no));",
  'the socket of Postgres':
    "return await soon((ok, no) => need('net').connect('/run/postgresql/.s.PGSQL.5432', () => ok('connected')).on('error', no));",
};

export const outside = [...rowsOf(network), ...rowsOf(processes), ...rowsOf(told)];
