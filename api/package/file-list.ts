/** Limits the file lists in the requests of publish and draft. */
import type { FastifyRequest } from 'fastify';
import { Problem } from '../../sdk/contract/errors.ts';
import { FILE_LIST_MAX_BYTES } from '../../sdk/contract/limits.ts';
import { invalidPackage } from './invalid-package.ts';
import { FILES_MAX } from './package-files.ts';
import { allowSilence } from './silent-connection.ts';

const createNotUtf8Problem = (): Problem =>
  new Problem('text_files_only', 'The file list is not UTF-8 text. Send binary assets with the zip upload.');

/** Options of a route that receives a file list. */
export const fileListOptions = {
  bodyLimit: FILE_LIST_MAX_BYTES,
  config: { refuseNonText: createNotUtf8Problem },
  preValidation: refuseManyFiles,
  preHandler: allowSilence,
};

/** Runs before the schema checks each file. @throws Problem `invalid_package` for a body with too many files */
async function refuseManyFiles({ body }: FastifyRequest): Promise<void> {
  const { files } = (body ?? {}) as { readonly files?: unknown };
  if (Array.isArray(files)) requireFileCount(files.length);
}

/** @throws Problem `invalid_package` */
export function requireFileCount(count: number): void {
  if (count > FILES_MAX) throw invalidPackage(`The package has ${count} files; the maximum is ${FILES_MAX}.`);
}
