/** Packages that tests publish, as file lists and as zips. */
import { ZipFile } from 'yazl';
import type { Introspection } from '../../../db/jobs/introspections.ts';
import { registerHooks } from '../../fixtures/registrations.ts';

export type Files = Readonly<Record<string, string | Buffer>>;

export const README = `---
name: House style
description: Adds a line to every system prompt
---
# House style
`;
export const INDEX = "middleware.systemPrompt = (ctx) => ctx.systemPrompt + ' Be kind.';\n";
/** The smallest package that passes. */
export const MINIMAL: Files = { 'readme.md': README, 'index.ts': INDEX };

/** The result of the introspection of the minimal package. */
export const MINIMAL_INTROSPECTION = {
  ok: true,
  registrations: registerHooks('middleware.systemPrompt'),
  places: {},
} as const satisfies Introspection;
/** In place of the jailed child, where a test is not about what a package registers. */
export const introspectsMinimal = async (): Promise<Introspection> => MINIMAL_INTROSPECTION;

/** A readme with these lines in its frontmatter besides name and description. */
export const readmeWith = (...lines: string[]): string =>
  ['---', 'name: Test', 'description: A test', ...lines, '---', 'Body', ''].join('\n');

/** The body of a file-list publish. */
export const fileList = (files: Files): { path: string; contentText: string }[] =>
  Object.entries(files).map(([path, content]) => ({ path, contentText: content.toString() }));

/** A zip of files as common packers write it. */
export async function zipOf(files: Files, options: { compress?: boolean } = {}): Promise<Buffer> {
  const zip = new ZipFile();
  for (const [path, content] of Object.entries(files)) {
    if (path.endsWith('/')) zip.addEmptyDirectory(path);
    else zip.addBuffer(Buffer.from(content), path, { compress: options.compress ?? true });
  }
  zip.end();
  const chunks: Buffer[] = [];
  for await (const chunk of zip.outputStream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

export interface Part {
  readonly name: string;
  readonly filename?: string;
  readonly content: string | Buffer;
}

/** A multipart body with these parts in this order. */
export function multipartOf(...parts: Part[]): { payload: Buffer; headers: Record<string, string> } {
  const boundary = 'bulkhead-test-boundary';
  const chunks = parts.flatMap(({ name, filename, content }) => [
    Buffer.from(
      `--${boundary}\r\ncontent-disposition: form-data; name="${name}"${filename ? `; filename="${filename}"` : ''}\r\n` +
        `${filename ? 'content-type: application/zip\r\n' : ''}\r\n`,
    ),
    typeof content === 'string' ? Buffer.from(content) : content,
    Buffer.from('\r\n'),
  ]);
  return {
    payload: Buffer.concat([...chunks, Buffer.from(`--${boundary}--\r\n`)]),
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
  };
}

/** The multipart body of a zip publish. */
export const upload = (zip: Buffer, semVer: string) =>
  multipartOf({ name: 'semVer', content: semVer }, { name: 'file', filename: 'package.zip', content: zip });
