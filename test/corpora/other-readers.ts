/** How other readers open a zip: yauzl, and Python's zipfile where the machine has it. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { fromBufferPromise } from 'yauzl';
import { findProgram } from '../../service/settings/search-path.ts';

/** SHA-256 of each file by path; null: the reader refused the zip. */
export type OpenedTree = Readonly<Record<string, string>> | null;

/** Prints one line of JSON for each zip that it is given. */
const PYTHON = `
import hashlib, json, sys, zipfile
for path in sys.argv[1:]:
    try:
        with zipfile.ZipFile(path) as z:
            print(json.dumps({i.filename: hashlib.sha256(z.read(i)).hexdigest() for i in z.infolist() if not i.is_dir()}))
    except Exception:
        print('null')
`;

export const findPython = (): string | null => findProgram('python3');

/** @param paths of zips */
export async function openWithPython(python: string, paths: readonly string[]): Promise<OpenedTree[]> {
  const { stdout } = await promisify(execFile)(python, ['-c', PYTHON, ...paths], { maxBuffer: 64 * 1024 * 1024 });
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as OpenedTree);
}

export async function openWithYauzl(zip: Buffer): Promise<OpenedTree> {
  try {
    const opened = await fromBufferPromise(zip);
    const tree: Record<string, string> = {};
    for await (const entry of opened.eachEntry()) {
      if (entry.fileName.endsWith('/')) continue;
      const hash = createHash('sha256');
      for await (const chunk of await opened.openReadStreamPromise(entry)) hash.update(chunk as Buffer);
      tree[entry.fileName] = hash.digest('hex');
    }
    return tree;
  } catch {
    return null;
  }
}
