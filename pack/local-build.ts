/** Builds a package on the author's machine with the service's own code, without storing anything. */
import { createHash } from 'node:crypto';
import { addAbortListener } from 'node:events';
import { join } from 'node:path';
import { stop as stopEsbuild, transformSync } from 'esbuild';
import { type BuildServices, buildPackage, requireLayout, type StagedBuild } from '../api/package/builder.ts';
import { type Bundle, bundlePackage, type CodePackage } from '../api/package/bundle.ts';
import { buildInTime } from '../api/package/bundler-worker.ts';
import type { PackageSource } from '../api/package/reader.ts';
import { openBlobs } from '../db/files/blobs.ts';
import type { FolderFile } from '../sdk/cli/local-tools.ts';
import { readTexts } from '../sdk/cli/package-upload.ts';
import { writeZip } from '../sdk/cli/zip.ts';
import type { Introspector } from './local-introspection.ts';

export interface LocalBuild extends StagedBuild {
  readonly bundle: Bundle;
}

/**
 * Builds and introspects a package.
 *
 * @param slug names the bundle in stack traces, as `<slug>.js`
 * @param scratch a folder that the caller removes
 * @param signal ends the reading of the files and the bundling
 * @throws Problem like a publish; RangeError when something is nested too deeply; the signal's reason
 */
export async function buildLocally(
  files: readonly FolderFile[],
  slug: string,
  scratch: string,
  introspector: Pick<Introspector, 'introspect'>,
  signal?: AbortSignal,
): Promise<LocalBuild> {
  // Before the files are read: without these two, it is perhaps the wrong folder, with any amount of data.
  requireLayout(files);
  const blobs = await openBlobs(scratch);
  await using staging = await blobs.stage();
  const source = await readSource(files, join(scratch, 'package.zip'), signal);
  const bundles: Bundle[] = [];
  const built = await buildPackage(createServices(introspector, bundles, signal), staging, source, slug);
  const [bundle] = bundles;
  if (!bundle) throw new Error('a package was built without a bundle');
  return { ...built, bundle };
}

/** Converts files like `publish`: text files one by one, anything else as a zip. */
async function readSource(
  files: readonly FolderFile[],
  zipPath: string,
  signal: AbortSignal | undefined,
): Promise<PackageSource> {
  const texts = await readTexts(files);
  if (texts !== null) return { kind: 'files', files: texts };
  await writeZip(files, zipPath, signal);
  return { kind: 'zip', path: zipPath };
}

/** The services that a build needs, in memory. @param bundles receives each built bundle */
function createServices(
  introspector: Pick<Introspector, 'introspect'>,
  bundles: Bundle[],
  signal: AbortSignal | undefined,
): BuildServices {
  return {
    bundler: {
      bundle: async (of) => {
        const bundle = await bundleUntil(signal, of).catch((error: unknown) => {
          signal?.throwIfAborted();
          // Throws where npm left out the program of esbuild, and says so: the failed build blames the code.
          transformSync('');
          throw error;
        });
        bundles.push(bundle);
        return bundle;
      },
    },
    blobs: {
      put: async (bytes) => ({
        sha256: createHash('sha256').update(bytes).digest('hex'),
        sizeBytes: bytes.byteLength,
      }),
    },
    introspect: ({ sourceName, hasFetch }) => introspector.introspect(bundles[0]?.text ?? '', sourceName, hasFetch),
    loopKey: 'local build',
  };
}

/** Bundles until the signal aborts. esbuild never settles a build whose process was stopped. @throws the signal's reason */
async function bundleUntil(signal: AbortSignal | undefined, of: CodePackage): Promise<Bundle> {
  const { promise: interrupted, reject } = Promise.withResolvers<never>();
  using _interrupting =
    signal &&
    addAbortListener(signal, () => {
      void stopEsbuild();
      reject(signal.reason);
    });
  return await Promise.race([bundlePackage(buildInTime, of), interrupted]);
}
