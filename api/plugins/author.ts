/** The author who publishes a version or saves a draft, as read from the request. */
import type { FastifyRequest } from 'fastify';
import { requireCaller, signInAgain } from '../../service/http/authentication.ts';
import type { Caller } from '../../service/identity/caller.ts';

export interface Author {
  readonly caller: Caller;
  /** Signs the caller in again, before the version is recorded: an upload and a build take minutes. @throws Problem */
  signInAgain(): Promise<void>;
}

export const readAuthor = (request: FastifyRequest): Author => ({
  caller: requireCaller(request),
  signInAgain: () => signInAgain(request),
});
