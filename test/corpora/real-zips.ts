/** Zips one package with each of the tools that this machine has. */
import { execFile } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { writeZip } from '../../sdk/cli/zip.ts';
import { findProgram } from '../../service/settings/search-path.ts';

const run = promisify(execFile);
/** Python writes what others do not: 64-bit fields, other methods, streams that cannot seek. */
const PYTHON = `
import io, os, sys, zipfile
out, how = sys.argv[1], sys.argv[2]
class Pipe(io.RawIOBase):
    def __init__(self, f): self.f = f
    def writable(self): return True
    def seekable(self): return False
    def write(self, b): return self.f.write(b)
names = sorted(os.path.relpath(os.path.join(d, f), '.') for d, _, fs in os.walk('.') for f in fs)
method = {'stored': 0, 'bzip2': 12, 'lzma': 14}.get(how, 8)
with open(out, 'wb') as f:
    with zipfile.ZipFile(Pipe(f) if how == 'streamed' else f, 'w', method) as z:
        for n in names:
            if how == 'wide':
                with z.open(zipfile.ZipInfo(n), 'w', force_zip64=True) as e: e.write(open(n, 'rb').read())
            else: z.write(n)
        if how == 'twice': z.write(names[0])
        if how == 'folders': z.writestr('assets/empty/', '')
`;

interface RealZip {
  readonly name: string;
  readonly opens: boolean;
  readonly program: string;
  readonly args: readonly string[];
}
const OUT = '%out';
const python = (how: string, opens = true): RealZip => ({
  name: `Python, ${how}`,
  opens,
  program: 'python3',
  args: ['-c', PYTHON, OUT, how],
});
const infoZip = (how: string, opens: boolean, ...args: string[]): RealZip => ({
  name: `Info-ZIP, ${how}`,
  opens,
  program: 'zip',
  args: ['-q', ...args, '-r', OUT, '.'],
});
const tools: readonly RealZip[] = [
  ...['deflated', 'stored', 'wide', 'streamed', 'folders'].map((how) => python(how)),
  ...['bzip2', 'lzma', 'twice'].map((how) => python(how, false)),
  infoZip('as it is', true),
  infoZip('stored', true, '-0'),
  infoZip('without folders', true, '-D'),
  infoZip('without extra fields', true, '-X'),
  infoZip('64-bit', true, '-fz'),
  infoZip('descriptors', true, '-fd'),
  infoZip('encrypted', false, '-P', 'secret'),
  { name: 'jar', opens: true, program: 'jar', args: ['cMf', OUT, '.'] },
  { name: '7-Zip', opens: true, program: '7z', args: ['a', '-bso0', OUT, '.'] },
  { name: 'libarchive', opens: true, program: 'bsdtar', args: ['--format', 'zip', '-cf', OUT, '.'] },
];

interface PackedZip {
  readonly name: string;
  readonly opens: boolean;
  readonly zip: Buffer;
}

/** @returns the zips, and the programs that are missing */
export async function packWithTools(
  folder: string,
  contents: ReadonlyMap<string, string>,
): Promise<{ zips: PackedZip[]; missing: string[] }> {
  const source = join(folder, 'source');
  for (const [path, content] of contents) {
    await mkdir(dirname(join(source, path)), { recursive: true });
    await writeFile(join(source, path), content);
  }
  const zips: PackedZip[] = [];
  const there = tools.filter(({ program }) => findProgram(program) !== null);
  for (const [at, { name, opens, program, args }] of there.entries()) {
    const out = join(folder, `tool-${at}.zip`);
    await run(
      program,
      args.map((arg) => (arg === OUT ? out : arg)),
      { cwd: source },
    );
    zips.push({ name, opens, zip: await readFile(out) });
  }
  const own = join(folder, 'own.zip');
  await writeZip(
    Array.from(contents.keys(), (path) => ({ path, at: join(source, path) })),
    own,
  );
  zips.push({ name: 'the command line', opens: true, zip: await readFile(own) });
  const missing = new Set(tools.map(({ program }) => program).filter((program) => findProgram(program) === null));
  return { zips, missing: [...missing] };
}
