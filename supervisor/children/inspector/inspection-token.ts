/** The token in the address of an inspector's WebSocket: names the supervisor that has it, and authorizes whoever connects. */
import { randomBytes } from 'node:crypto';

const SUPERVISOR_BYTES = 4;
const SECRET_BYTES = 32;
/** As many base64url characters as these bytes have. */
const TOKEN = /^[\w-]{48}$/;

export function createToken(supervisorId: number): string {
  const supervisor = Buffer.alloc(SUPERVISOR_BYTES);
  supervisor.writeUInt32BE(supervisorId);
  return Buffer.concat([supervisor, randomBytes(SECRET_BYTES)]).toString('base64url');
}

/** @returns the id of the supervisor that has the inspector; null: the text is not a token */
export const readSupervisorId = (token: string): number | null =>
  TOKEN.test(token) ? Buffer.from(token, 'base64url').readUInt32BE() : null;
