/**
 * Child programs that never were ours: what a plugin could do that had taken over its whole process. Each is a CommonJS
 * script that runs in the jail instead of the real one. `say` frames a message as the wire expects it.
 */
const SAY = `
const fs = require('fs');
const put = (bytes) => { try { for (let at = 0; at < bytes.length; ) at += fs.writeSync(1, bytes, at); } catch {} };
const raw = (rest, head, text) => { const b = Buffer.alloc(8); b.writeUInt32LE(rest, 0); b.writeUInt32LE(head, 4); put(Buffer.concat([b, Buffer.from(text)])); };
const say = (message) => { const text = JSON.stringify({ jsonrpc: '2.0', ...message }); raw(Buffer.byteLength(text) + 4, Buffer.byteLength(text), text); };
const ready = () => say({ method: 'ready', params: { node: 'v0' } });
setInterval(() => 0, 1e6);
`;

/** Each breaks a rule of the wire; the reason of its end says which. */
export const breakers: Readonly<Record<string, readonly [program: string, reason: RegExp]>> = {
  'a frame of 4 GB': [`${SAY} ready(); raw(0xffffffff, 4, '');`, /a frame of 4294967295 bytes/],
  'no frame at all': [`${SAY} put(Buffer.from('hello, this is not a frame'));`, /a frame of/],
  'no JSON': [`${SAY} ready(); raw(7, 3, '{{{');`, /not valid JSON/],
  'an unknown notification': [
    `${SAY} ready(); say({ method: 'shutdown', params: {} });`,
    /a malformed notification whose method is unknown$/,
  ],
  'a notification named like a property': [
    `${SAY} ready(); say({ method: 'constructor', params: {} });`,
    /malformed notification/,
  ],
  'a notification named __proto__': [
    `${SAY} ready(); say({ method: '__proto__', params: {} });`,
    /malformed notification/,
  ],
  'a log line of the wrong shape': [
    `${SAY} ready(); say({ method: 'log', params: { level: 'fatal' } });`,
    /malformed notification "log"/,
  ],
  'a request that only the supervisor makes': [
    `${SAY} ready(); say({ id: 1, method: 'invoke', params: {} });`,
    /malformed request "invoke"/,
  ],
  'a host call without arguments': [
    `${SAY} ready(); say({ id: 1, method: 'hostCall', params: { member: 'x', invocationId: null } });`,
    /malformed request/,
  ],
  'a response without a request': [`${SAY} ready(); say({ id: 99, result: 1 });`, /a response to no request/],
  'deep JSON': [
    `${SAY} ready(); const t = '{"method":"log","params":' + '['.repeat(1e5) + ']'.repeat(1e5) + '}'; raw(t.length + 4, t.length, t);`,
    /nests deeper than 108 levels/,
  ],
};

/** Says it is ready and then answers whatever it is asked with this, as often as it likes. */
export const answering = (answer: string, times = 1): string => `${SAY}
let held = Buffer.alloc(0);
process.stdin.on('data', (chunk) => {
  held = Buffer.concat([held, chunk]);
  while (held.length >= 8 && held.length >= held.readUInt32LE(0) + 4) {
    const head = JSON.parse(held.subarray(8, 8 + held.readUInt32LE(4)).toString());
    held = held.subarray(held.readUInt32LE(0) + 4);
    if (head.id === undefined) continue;
    const registrations = { hooks: [], events: [], tools: {}, commands: {}, providers: {}, channel: { receive: false, send: false, handshake: false, handshakeOn: null } };
    if (head.method === 'load') say({ id: head.id, result: { outcome: 'loaded', registrations, places: {}, schemaFaults: [] } });
    else for (let i = 0; i < ${times}; i += 1) say({ id: head.id, result: ${answer} });
  }
});
ready();`;

export const endings: Readonly<Record<string, string>> = {
  silent: `${SAY}`,
  crashing: `${SAY} process.stderr.write('last words\\n'); process.abort();`,
  leaving: `process.exit(7);`,
  deaf: `${SAY} ready(); for (;;);`,
  ignoring: `${SAY} for (const s of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(s, () => 0); ready();`,
  half: `${SAY} ready(); put(Buffer.from([0, 0, 1, 0, 0, 1, 0, 0, 123]));`,
  flooding: `${SAY} ready(); for (;;) say({ method: 'log', params: { level: 'info', message: 'x', invocationId: null, truncated: false } });`,
};
