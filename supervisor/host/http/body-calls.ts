/**
 * The calls behind `response.body` of `fetch`, which the child program makes. `http.openBody(id, url, init)` is an `http.fetch` that
 * returns when the headers have arrived, with each `Set-Cookie` header alone, too; `http.readBody(id)` returns the next bytes, and
 * `http.closeBody(id)` ends the request. They are no members of `host`: the grant check and the audit entry of the request cover
 * its body.
 */
import { HostCallRefusal } from '../../children/child-errors.ts';
import type { BodyPart } from './body-streams.ts';

interface Request {
  readonly member: string;
  readonly args: readonly unknown[];
}

const ID_MAX_CHARS = 32;

const readId = ([id]: readonly unknown[]): string => {
  if (typeof id === 'string' && id !== '' && id.length <= ID_MAX_CHARS) return id;
  throw new HostCallRefusal('malformed', 'the id of a body is a short text');
};

/** The request as `http.fetch`, if it opens a body. @throws HostCallRefusal */
export function readOpening<T extends Request>(request: T): { readonly request: T; readonly bodyId: string | null } {
  if (request.member !== 'http.openBody') return { request, bodyId: null };
  const bodyId = readId(request.args);
  return { request: { ...request, member: 'http.fetch', args: request.args.slice(1) }, bodyId };
}

export const isBodyCall = ({ member }: Request): boolean => member === 'http.readBody' || member === 'http.closeBody';

/** The operations on the response bodies of one child. */
interface Bodies {
  read(id: string): Promise<BodyPart>;
  close(id: string): void | Promise<void>;
}

/** @throws HostCallRefusal */
export async function answerBodyCall(bodies: Bodies, { member, args }: Request): Promise<BodyPart | undefined> {
  const id = readId(args);
  if (member === 'http.readBody') return bodies.read(id);
  await bodies.close(id);
  return undefined;
}
