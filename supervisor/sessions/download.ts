/** Sends files that plugins created so that browsers only save them. */
import type { FastifyReply } from 'fastify';

export function asDownload(reply: FastifyReply, file: { name: string; mediaType: string }): FastifyReply {
  const name = encodeURIComponent(file.name.toWellFormed()).replace(/['()*]/g, percent);
  return reply
    .header('content-type', file.mediaType)
    .header('content-disposition', `attachment; filename*=UTF-8''${name}`)
    .header('content-security-policy', "default-src 'none'; sandbox")
    .header('x-content-type-options', 'nosniff')
    .header('cross-origin-resource-policy', 'same-origin')
    .header('cache-control', 'private, no-store');
}

/** RFC 8187 allows fewer characters than a URL. */
const percent = (character: string): string => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
