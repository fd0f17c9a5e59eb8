/**
 * Exports a version as an Agent Plugin (agent-plugins.org, version 1.0.0): its skills, and the address at which a
 * client reaches its code over the Model Context Protocol. Clients of that format never run the plugin's code.
 */
import type { Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import type { Version, VersionFile } from '../../db/catalog/versions.ts';
import type { Blobs } from '../../db/files/blobs.ts';

const SCHEMAS = 'https://agent-plugins.org/schemas/1.0.0';
const SKILL = /^skills\/[^/]+\/.+$/;

interface Addresses {
  /** Address of the service for users. */
  readonly publicUrl: string;
  /** The MCP address of a session; null: the client starts `bulkhead mcp`, which creates a session. */
  readonly sessionMcpUrl: string | null;
}
interface Named {
  readonly slug: string;
  readonly description: string;
  readonly author: string;
}

/** Packs a version. Skills are read while the archive is sent. */
export function packAgentPlugin(
  blobs: Pick<Blobs, 'stream'>,
  plugin: Named,
  version: Pick<Version, 'semVer' | 'createdAt'>,
  files: readonly VersionFile[],
  addresses: Addresses,
): Readable {
  const zip = new ZipFile();
  const output = zip.outputStream as unknown as Readable;
  let source: Readable | null = null;
  zip.on('error', (error: Error) => output.destroy(error));
  // A client that disconnects must not leave a file open.
  output.once('close', () => source?.destroy());
  // A fixed time, so that the same version packs to the same bytes.
  const options = { mtime: new Date(version.createdAt) };
  const add = (name: string, value: object): void =>
    zip.addBuffer(Buffer.from(`${JSON.stringify(value, null, 2)}\n`), `${plugin.slug}/${name}`, options);
  add('plugin.json', createManifest(plugin, version.semVer));
  add('mcp.json', createServers(addresses));
  for (const { path, sha256, sizeBytes } of files) {
    if (!SKILL.test(path)) continue;
    zip.addReadStreamLazy(`${plugin.slug}/${path}`, { ...options, size: sizeBytes }, (give) => {
      source = blobs.stream(sha256);
      give(null, source);
    });
  }
  zip.end();
  return output;
}

function createManifest({ slug, description, author }: Named, semVer: string | null): object {
  return {
    $schema: `${SCHEMAS}/plugin.schema.json`,
    name: slug,
    ...(semVer === null ? {} : { version: semVer }),
    description,
    author: { name: author },
  };
}

function createServers({ publicUrl, sessionMcpUrl }: Addresses): object {
  const server =
    sessionMcpUrl !== null && isPortable(sessionMcpUrl)
      ? { type: 'streamable-http', url: sessionMcpUrl }
      : { type: 'stdio', command: 'bulkhead', args: ['mcp', '--url', publicUrl] };
  return { $schema: `${SCHEMAS}/mcp.schema.json`, mcpServers: { bulkhead: server } };
}

/** The format allows http only for the local machine. */
function isPortable(address: string): boolean {
  const { protocol, hostname } = new URL(address);
  return protocol === 'https:' || hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.');
}
