/** An apt source on this machine, and the configuration that makes apt use it instead of the machine's own sources. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type Teardown, temporaryFolder } from '../runner/harness.ts';

/** Two packages, `tool` and the `tool-library` it depends on, each with one file. */
export interface PackageSource {
  /** Paths that apt asked for. */
  readonly requests: readonly string[];
  /** Serves only the index from now on. */
  hold(): void;
  /** Answers what waits and everything that follows. */
  release(): void;
}

/**
 * Starts it and sets APT_CONFIG for this process; both end with the test.
 *
 * @param options `[trusted=yes]` for a source without signatures that apt accepts
 */
export async function startPackageSource(t: Teardown, options: string): Promise<PackageSource> {
  const folder = await temporaryFolder(t);
  const library = await buildPackage(folder, 'tool-library', {});
  const tool = await buildPackage(folder, 'tool', { Depends: 'tool-library' });
  const files = new Map([['/Packages', Buffer.from(`${library.entry}\n${tool.entry}\n`)]]);
  for (const { name, content } of [library, tool]) files.set(`/${name}`, content);
  const requests: string[] = [];
  const waiting = new Map<ServerResponse, string>();
  let isHeld = false;
  const answer = (response: ServerResponse, path: string): void => {
    const content = files.get(path);
    response.writeHead(content === undefined ? 404 : 200).end(content);
  };
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '', 'http://localhost').pathname.replace('/./', '/');
    requests.push(path);
    if (isHeld && path.endsWith('.deb')) waiting.set(response, path);
    else answer(response, path);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  await useSource(t, `deb ${options} http://127.0.0.1:${(server.address() as AddressInfo).port} ./`);
  return {
    requests,
    hold() {
      isHeld = true;
    },
    release() {
      isHeld = false;
      for (const [response, path] of waiting) answer(response, path);
      waiting.clear();
    },
  };
}

/** Makes this line apt's only source, for this process and what it starts, until the end of the test. */
export async function useSource(t: Teardown, line: string): Promise<string> {
  const folder = await temporaryFolder(t);
  await Promise.all(['apt.conf.d', 'preferences.d', 'sources.list.d'].map((name) => mkdir(join(folder, name))));
  await writeFile(join(folder, 'sources.list'), `${line}\n`);
  const configuration = join(folder, 'apt.conf');
  // As careless as a machine can be: what is fetched must be verified all the same.
  const careless = 'APT::Get::AllowUnauthenticated "true"; Acquire::AllowInsecureRepositories "true";';
  await writeFile(configuration, `Dir::Etc "${folder}"; ${careless}\n`);
  const before = process.env.APT_CONFIG;
  process.env.APT_CONFIG = configuration;
  t.teardown(() => {
    if (before === undefined) delete process.env.APT_CONFIG;
    else process.env.APT_CONFIG = before;
  });
  return configuration;
}

async function buildPackage(folder: string, name: string, more: Readonly<Record<string, string>>) {
  const root = join(folder, name);
  await mkdir(join(root, 'DEBIAN'), { recursive: true });
  // dpkg-deb refuses what the umask may have made of it.
  await chmod(join(root, 'DEBIAN'), 0o755);
  await mkdir(join(root, 'usr', 'lib'), { recursive: true });
  await writeFile(join(root, 'usr', 'lib', `${name}.txt`), name);
  const fields = { Package: name, Version: '1.0', Architecture: 'all', Maintainer: 'A test <test@localhost>', ...more };
  const control = Object.entries({ ...fields, Description: 'test' }).map(([key, value]) => `${key}: ${value}\n`);
  await writeFile(join(root, 'DEBIAN', 'control'), control.join(''));
  const file = `${name}_1.0_all.deb`;
  execFileSync('dpkg-deb', ['--root-owner-group', '--build', root, join(folder, file)], { stdio: 'ignore' });
  const content = await readFile(join(folder, file));
  const hash = createHash('sha256').update(content).digest('hex');
  const entry = `${control.join('')}Filename: ./${file}\nSize: ${content.length}\nSHA256: ${hash}\n`;
  return { name: file, content, entry };
}
