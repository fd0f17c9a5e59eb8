/** Renders the chart with Helm itself, which a package of the AWS CDK carries for Linux on x64. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { openPromise } from 'yauzl';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const CHART = join(ROOT, 'deploy/helm/bulkhead');
const LAYER = join(ROOT, 'test/node_modules/@aws-cdk/asset-kubectl-v20/lib/layer.zip');
/** The oldest that the chart is for. */
const KUBERNETES = '1.30.0';

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Labels; readonly annotations?: Labels };
  // biome-ignore lint/suspicious/noExplicitAny: manifests of every kind; their own types are checked in the test
  readonly spec: any;
  readonly data?: Readonly<Record<string, string>>;
}
export type Labels = Readonly<Record<string, string>>;

export interface Helm {
  /** @throws with what Helm says */
  lint(values: readonly string[]): Promise<string>;
  /**
   * @param values `name=value`
   * @param file YAML of a values file
   */
  render(values: readonly string[], file?: string): Promise<Manifest[]>;
}

/** Takes Helm out of its package. */
export async function unpackHelm(folder: string): Promise<Helm> {
  const program = join(folder, 'helm');
  const zip = await openPromise(LAYER, { lazyEntries: true });
  for await (const entry of zip.eachEntry()) {
    if (entry.fileName !== 'helm/helm') continue;
    await pipeline(await zip.openReadStreamPromise(entry), createWriteStream(program, { mode: 0o700 }));
  }
  zip.close();
  const env = { HOME: folder };
  const run = async (words: readonly string[], values: readonly string[]): Promise<string> => {
    const set = values.flatMap((value) => ['--set', value]);
    const { stdout } = await promisify(execFile)(program, [...words, ...set], { env, maxBuffer: 16 * 1024 ** 2 });
    return stdout;
  };
  return {
    lint: (values) => run(['lint', '--strict', CHART], values),
    async render(values, file) {
      const words = ['template', 'prod', CHART, '--kube-version', KUBERNETES];
      if (file !== undefined) {
        const path = join(folder, `${randomUUID()}.yaml`);
        await writeFile(path, file);
        words.push('-f', path);
      }
      const text = await run(words, values);
      return parseAllDocuments(text).flatMap((document) => (document.toJS() as Manifest | null) ?? []);
    },
  };
}
