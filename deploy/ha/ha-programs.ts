/** Finds the programs that high availability needs on this machine, where Debian's packages install them. */
import { existsSync, globSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findProgram } from '../../service/settings/search-path.ts';

export interface HaPrograms {
  readonly etcd: string;
  readonly haproxy: string;
  readonly patroni: string;
  /** Folder of Patroni's modules, which Python may not search by default. */
  readonly pythonPath: string;
  /** Folder of PostgreSQL's programs. */
  readonly postgresBin: string;
}

/** The package of each program. */
const packages: Readonly<Record<string, string>> = {
  etcd: 'etcd-server',
  haproxy: 'haproxy',
  patroni: 'patroni',
  postgres: 'postgresql',
};
/** The programs that Patroni runs. A folder that has only those of the client is skipped. */
const POSTGRES_PROGRAMS = ['initdb', 'pg_basebackup', 'pg_controldata', 'pg_rewind', 'postgres', 'psql'];

/** @returns the names of the packages that are not installed, or the programs */
export function findHaPrograms(): HaPrograms | { readonly missing: readonly string[] } {
  const [etcd, haproxy, patroni] = [findProgram('etcd'), findProgram('haproxy'), findProgram('patroni')];
  const postgresBin = findPostgres();
  if (etcd !== null && haproxy !== null && patroni !== null && postgresBin !== null)
    return { etcd, haproxy, patroni, postgresBin, pythonPath: join(dirname(patroni), '../lib/python3/dist-packages') };
  const found = { etcd, haproxy, patroni, postgres: postgresBin };
  const missing = Object.entries(found).flatMap(([name, path]) => (path === null ? [packages[name] ?? name] : []));
  return { missing };
}

/** Finds the folder of the newest PostgreSQL that has all of these programs. */
function findPostgres(): string | null {
  const folders = globSync('/usr/lib/postgresql/*/bin').toSorted((one, other) =>
    other.localeCompare(one, 'en', { numeric: true }),
  );
  return folders.find((folder) => POSTGRES_PROGRAMS.every((name) => existsSync(join(folder, name)))) ?? null;
}
