/**
 * The used parts of `node:http`, without its WebSocket client. An `import` of a built-in module reads all its exports, and those
 * of `node:http` load undici: 40 ms of processor time at each start.
 */
export const { Agent, createServer, request, STATUS_CODES, validateHeaderName, validateHeaderValue } =
  process.getBuiltinModule('node:http');
