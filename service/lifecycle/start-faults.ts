/** Names the setting because of which a process cannot start: an address to listen on, the database or DATA_DIR. */
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import { isUnfinished } from '../../db/backup/stored-files.ts';
import { isPoolerRefusal, POOLER_REFUSAL, readFirstMessage } from '../../db/postgres/database-errors.ts';
import { PASSWORD_HINT, SettingsError } from '../settings/settings.ts';
import { extendBacklog, listenOptions } from './drain.ts';

/** An address to listen on, with the names of its settings. */
interface NamedAddress {
  readonly hostSetting: string;
  readonly host: string;
  readonly portSetting: string;
  readonly port: number;
}

/** Takes an address from settings. */
export const nameAddress = <Host extends string, Port extends string>(
  settings: Readonly<Record<Host, string> & Record<Port, number>>,
  hostSetting: Host,
  portSetting: Port,
): NamedAddress => ({ hostSetting, host: settings[hostSetting], portSetting, port: settings[portSetting] });

const NO_ADDRESS: readonly string[] = ['ENOTFOUND', 'EAI_AGAIN', 'EADDRNOTAVAIL', 'EINVAL'];

/** @param code the system's error code */
export function createListenFault({ hostSetting, host, portSetting, port }: NamedAddress, code: string): SettingsError {
  if (NO_ADDRESS.includes(code))
    return new SettingsError(`${hostSetting} ${host} is not an address of this machine (${code}).`);
  if (code === 'EADDRINUSE')
    return new SettingsError(`${portSetting} ${port} is in use: stop the program that has it, or set ${portSetting}.`);
  return new SettingsError(`${portSetting}: cannot listen on ${host}:${port} (${code}).`);
}

/** @throws SettingsError */
export async function listenOn(
  app: FastifyInstance,
  socket: 'service' | 'operations',
  address: NamedAddress,
): Promise<void> {
  await app.listen(listenOptions(socket, address)).catch((error: NodeJS.ErrnoException) => {
    throw createListenFault(address, error.code ?? error.message);
  });
  extendBacklog(app.server);
}

/** @param setting names the address of the database */
export function createDatabaseFault(setting: string, error: unknown): SettingsError {
  const reason = isPoolerRefusal(error) ? POOLER_REFUSAL : readFirstMessage(error);
  const hint = /ENOTFOUND/.test(reason) ? `; ${PASSWORD_HINT}` : '';
  return new SettingsError(`${setting} does not work: ${reason.replace(/\.$/, '')}${hint}.`);
}

/** @throws SettingsError if the pool cannot connect */
export async function requireDatabase(pool: Pool, setting: string): Promise<void> {
  try {
    (await pool.connect()).release();
  } catch (error) {
    throw createDatabaseFault(setting, error);
  }
}

/**
 * Creates nothing: the folder may be the wrong one.
 *
 * @throws SettingsError if DATA_DIR can neither be read nor created, or a restore into it was interrupted
 */
export async function requireDataDir(dataDir: string): Promise<void> {
  const { R_OK, W_OK, X_OK } = constants;
  let code = '';
  try {
    const place = await findExisting(dataDir);
    if ((await stat(place)).isDirectory()) await access(place, place === dataDir ? R_OK | X_OK : W_OK | X_OK);
    else code = 'ENOTDIR';
  } catch (error) {
    code = (error as NodeJS.ErrnoException).code ?? String(error);
  }
  if (code !== '')
    throw new SettingsError(
      `DATA_DIR ${dataDir} cannot be used (${code}): set DATA_DIR to a folder that this user can read and write.`,
    );
  await requireWholeRestore(dataDir);
}

/** After an interrupted restore, rows may refer to missing files, or be missing. @throws SettingsError */
export async function requireWholeRestore(dataDir: string): Promise<void> {
  if (!(await isUnfinished(dataDir))) return;
  throw new SettingsError(
    `A restore into ${dataDir} was interrupted. Run npm run -s operator -- restore <file> again. Use the same file. If it says that the database is not empty, see docs/operating.md, “Backup and restore”.`,
  );
}

/** The path, or the nearest folder above it that exists. */
async function findExisting(path: string): Promise<string> {
  const isThere = await stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return false;
    },
  );
  return isThere ? path : findExisting(dirname(path));
}
