/** A publish up to the point where something would be kept, on the author's machine: the service's own code does it. */
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stop as stopEsbuild } from 'esbuild';
import { type BuildServices, buildPackage, type StagedBuild } from '../api/package/builder.ts';
import { bundlePackage } from '../api/package/bundle.ts';
import * as bundling from '../api/package/bundler-worker.ts';
import { decodeText } from '../api/package/files.ts';
import type { PackageSource } from '../api/package/reader.ts';
import { openBlobs } from '../db/blobs.ts';
import type { CheckedPackage, CheckOutcome, FolderFile } from '../sdk/cli/toolbox.ts';
import { writeZip } from '../sdk/cli/zip.ts';
import { Problem } from '../sdk/errors.ts';
import { startIntrospector } from './local-introspection.ts';

/** Checks the files of a package. Its code runs in a process of its own, which has nothing granted and ends with the check. */
export async function checkFolder(files: readonly FolderFile[], slug: string): Promise<CheckOutcome> {
  const scratch = await mkdtemp(join(tmpdir(), 'bulkhead-check-'));
  // Started before it is needed: it takes as long as the bundling.
  const introspector = startIntrospector(scratch);
  try {
    const blobs = await openBlobs(scratch);
    await using staging = await blobs.stage();
    const source = await sourceOf(files, join(scratch, 'package.zip'));
    return { ok: true, found: summed(await buildPackage(servicesOver(introspector), staging, source, slug)) };
  } catch (error) {
    if (error instanceof RangeError) return { ok: false, code: 'invalid_package', message: NESTED, errors: [] };
    if (!(error instanceof Problem)) throw error;
    return { ok: false, code: error.code, message: error.message, errors: error.errors ?? [] };
  } finally {
    await introspector.end();
    await stopEsbuild();
    await rm(scratch, { recursive: true, force: true });
  }
}

// As in the service's threads: patterns are analysed here, in no process of their own.
process.env.RECHECK_BACKEND = 'pure';

const NESTED = 'The package holds something that is nested too deeply.';

/** As `publish` sends it: text files one by one, anything else as a zip. */
async function sourceOf(files: readonly FolderFile[], zipPath: string): Promise<PackageSource> {
  const texts: { path: string; contentText: string }[] = [];
  for (const { path, at } of files) {
    const text = decodeText(await readFile(at));
    if (text === null) {
      await writeZip(files, zipPath);
      return { kind: 'zip', path: zipPath };
    }
    texts.push({ path, contentText: text });
  }
  return { kind: 'files', files: texts };
}

/** The service's parts, in this process and in memory. */
function servicesOver(introspector: ReturnType<typeof startIntrospector>): BuildServices {
  const kept = new Map<string, Uint8Array>();
  return {
    bundler: {
      bundle: (of) => bundlePackage(runTask, of),
      checkToolSchemas: (schemas) => bundling.checkToolSchemas(schemas),
    },
    blobs: {
      put: async (bytes) => {
        const sha256 = createHash('sha256').update(bytes).digest('hex');
        kept.set(sha256, bytes);
        return { sha256, sizeBytes: bytes.byteLength };
      },
    },
    introspect: ({ bundleSha256, sourceName }) =>
      introspector.introspect(Buffer.from(kept.get(bundleSha256) ?? []).toString('utf8'), sourceName),
  };
}

const runTask = async <Result>(name: string, task: unknown): Promise<Result> => {
  if (name !== 'build') throw new Error(`there is no task ${name}`);
  return (await bundling.build(task as bundling.BuildTask)) as Result;
};

function summed({
  sourceSha256,
  sizeBytes,
  manifest,
  capabilities,
  discovered,
  warnings,
}: StagedBuild): CheckedPackage {
  const { name, description } = manifest;
  return {
    name,
    description,
    sourceSha256,
    sizeBytes,
    capabilities,
    discovered: discovered as object as CheckedPackage['discovered'],
    warnings,
  };
}
