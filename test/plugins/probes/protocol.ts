/**
 * The wire, by who holds it: each row writes to the child's own stdout what the child would never say. With the realm up
 * no plugin gets there. It is an escape when a host call is heard that names an invocation of somebody else's, or when the
 * supervisor takes the forged answer for that of a call to come.
 */
import { type Rows, rowsOf } from './probe.ts';

const WRITE = `
  const fs = need('fs');
  const put = (bytes) => { for (let at = 0; at < bytes.length; ) at += fs.writeSync(1, bytes, at); };
  const { Buffer } = need('buffer');
  const raw = (rest, head, text) => { const b = Buffer.alloc(8); b.writeUInt32LE(rest >>> 0, 0); b.writeUInt32LE(head >>> 0, 4); put(Buffer.concat([b, Buffer.from(text)])); };
  const say = (message) => { const text = typeof message === 'string' ? message : JSON.stringify(message); raw(Buffer.byteLength(text) + 4, Buffer.byteLength(text), text); };
  const hostCall = (id, params) => say({ id, method: 'hostCall', params });
`;

const forged: Rows = {
  'a frame of 4 GB': "raw(0xffffffff, 4, '');",
  'a frame larger than its bound': "raw(2 ** 26, 4, '{}');",
  'a frame of no bytes': "raw(0, 0, '');",
  'a frame shorter than its head': "raw(6, 100, '{}');",
  'half a frame': 'put(Buffer.from([0, 1, 0, 0, 9]));',
  'no frame': "put(Buffer.from('GET / HTTP/1.1\\r\\n\\r\\n'));",
  'a header of vscode': "put(Buffer.from('Content-Length: 2\\r\\n\\r\\n{}'));",
  'no JSON': "say('{{{');",
  'a number': "say('1');",
  null: "say('null');",
  'a list': "say('[]');",
  'NaN for an id': 'say(\'{"id":NaN,"result":1}\');',
  'a negative id': 'say({ id: -1, result: 1 });',
  'a fraction for an id': 'say({ id: 1.5, result: 1 });',
  'an endless id': 'say(\'{"id":1e999,"result":1}\');',
  'text for an id': "say({ id: '1', result: 1 });",
  'an object for an id': 'say({ id: {}, result: 1 });',
  'an answer to nothing': "say({ id: 999999, result: { outcome: 'answered', answer: 'forged' } });",
  'an answer to the next call': "say({ id: 3, result: { outcome: 'answered', answer: 'forged' } });",
  'an answer to the load, again': "say({ id: 1, result: { outcome: 'loaded', registrations: {}, places: {} } });",
  'many answers to one call':
    "for (let i = 0; i < 1000; i += 1) say({ id: 2, result: { outcome: 'answered', answer: '' } });",
  'result and error in one': "say({ id: 2, result: 1, error: { code: 'x', message: 'y' } });",
  'an unknown notice': "say({ method: 'shutdown', params: {} });",
  'a notice named __proto__': "say({ method: '__proto__', params: {} });",
  'a notice named constructor': "say({ method: 'constructor', params: {} });",
  'a notice named toString': "say({ method: 'toString', params: {} });",
  'a request named hasOwnProperty': "say({ id: 1, method: 'hasOwnProperty', params: {} });",
  'a request only the supervisor makes':
    "say({ id: 1, method: 'invoke', params: { target: { kind: 'tools', name: 'run' } } });",
  'a load': "say({ id: 1, method: 'load', params: { bundle: '' } });",
  'a configure': "say({ method: 'configure', params: { members: ['llm.complete'] } });",
  'ready, again and again': "for (let i = 0; i < 100; i += 1) say({ method: 'ready', params: { node: 'v0' } });",
  'parameters with __proto__': 'say(\'{"method":"log","params":{"__proto__":{"level":"info"}}}\');',
  'parts that climb': 'say(\'{"@":[2,"__proto__","x",0,0],"method":"log","params":{}}\');',
  'parts of a wrong length': 'say(\'{"@":[1,"params",0,1e9],"method":"log","params":null}\');',
  'a log line of a wrong level':
    "say({ method: 'log', params: { level: '__proto__', message: 'x', invocationId: null, truncated: false } });",
  'a log line too long':
    "say({ method: 'log', params: { level: 'info', message: 'x'.repeat(1e6), invocationId: null, truncated: false } });",
  'a log line of another invocation':
    "say({ method: 'log', params: { level: 'info', message: 'x', invocationId: '$foreign', truncated: false } });",
  'a lone surrogate':
    'say(\'{"method":"log","params":{"level":"info","message":"\\\\ud800","invocationId":null,"truncated":false}}\');',
  'a NUL':
    'say(\'{"method":"log","params":{"level":"info","message":"\\\\u0000","invocationId":null,"truncated":false}}\');',
  'a host call of another invocation': "hostCall(1, { member: 'secrets.get', args: ['x'], invocationId: '$foreign' });",
  'a host call of an invocation named __proto__':
    "hostCall(1, { member: 'secrets.get', args: ['x'], invocationId: '__proto__' });",
  'a host call without an invocation': "hostCall(1, { member: 'secrets.get', args: ['x'] });",
  'a host call without arguments': "hostCall(1, { member: 'secrets.get', invocationId: null });",
  'a host call with an endless member': "hostCall(1, { member: 'x'.repeat(1e6), args: [], invocationId: null });",
  'a host call with more fields':
    "hostCall(1, { member: 'secrets.get', args: [], invocationId: null, installationId: '1', granted: true });",
  'a thousand host calls':
    "for (let i = 1; i < 1000; i += 1) hostCall(i, { member: 'secrets.get', args: ['x'], invocationId: null });",
  'one id for many host calls':
    "for (let i = 1; i < 200; i += 1) hostCall(7, { member: 'secrets.get', args: ['x'], invocationId: null });",
  'deep JSON': "say('{\"method\":\"log\",\"params\":' + '['.repeat(1e5) + ']'.repeat(1e5) + '}');",
  'many keys':
    'say(\'{"method":"log","params":{\' + Array.from({ length: 1e5 }, (_, i) => \'"k\' + i + \'":1\').join() + \'}}\');',
  'frames in a flood':
    "for (let i = 0; i < 20000; i += 1) say({ method: 'log', params: { level: 'info', message: 'x', invocationId: null, truncated: false } });",
};

/** As the member of another capability, or as another: stopped in the child by absence, and by the supervisor again. */
const capabilities: Rows = {
  'host.ssh': 'return host.ssh.exec;',
  'host.llm': 'return host.llm.complete;',
  'host.workspace': 'return host.workspace.read;',
  'host.session': 'return host.session.messages;',
  'host.agents': 'return host.agents.list;',
  'host.models': 'return host.models.list;',
  'host.media': 'return host.media.create;',
  'host.http': 'return host.http.fetch;',
  'host.storage': 'return host.storage.get;',
  'host by its prototype': 'return Object.getPrototypeOf(host).llm ?? host.__proto__.ssh;',
  'host by computed names': "return host['l' + 'lm'] ?? host['constructor']['llm'];",
  'host by its own keys':
    "return Reflect.ownKeys(host).filter((k) => !['log', 'settings', 'secrets'].includes(k)).join();",
  'a member added to host': 'host.llm = {}; return host.llm;',
  'a member added to a group': 'host.secrets.all = () => 1; return host.secrets.all;',
  'a member of the prototype of everything':
    'Object.prototype.llm = { complete: 1 }; const found = host.llm; delete Object.prototype.llm; return $realm && found;',
  'settings are changed': "host.settings.x = '1'; return host.settings.x;",
  'the settings of others': 'return Object.keys(host.settings).join();',
  'a host kept from before': 'globalThis.kept ??= host; return kept.llm;',
};

const wire = Object.fromEntries(Object.entries(forged).map(([name, code]) => [name, `${WRITE} ${code}`]));
export const protocol = rowsOf(wire, { alone: true });
export const grants = rowsOf(capabilities);
