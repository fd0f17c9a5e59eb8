/** Answers a request that created a resource. */
import type { FastifyReply, FastifyRequest } from 'fastify';

/**
 * Sets 201 and `Location`: a path of this server, below the address of the request's collection.
 *
 * @param below the collection, such as the id of the new resource
 */
export function answerCreated<Reply extends FastifyReply>(request: FastifyRequest, reply: Reply, below: string): Reply {
  const collection = request.url.split('?', 1)[0]?.replace(/\/(zip)?$/, '');
  reply.code(201).header('location', `${collection}/${below}`);
  return reply;
}
