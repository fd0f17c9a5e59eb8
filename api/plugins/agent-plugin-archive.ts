/**
 * Exports a version as an Agent Plugin (agent-plugins.org, version 1.0.0): its skills, and the address at which a
 * client reaches its code over the Model Context Protocol. Clients of that format never run the plugin's code.
 */
import type { Readable } from 'node:stream';
import type { Version, VersionFile } from '../../db/catalog/versions.ts';
import type { Blobs } from '../../db/files/blobs.ts';
import { packBlobs } from './blob-archive.ts';

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
  const make = (name: string, value: object) => ({
    path: `${plugin.slug}/${name}`,
    bytes: Buffer.from(`${JSON.stringify(value, null, 2)}\n`),
  });
  const skills = files.filter(({ path }) => SKILL.test(path));
  return packBlobs(
    blobs,
    [
      make('plugin.json', createManifest(plugin, version.semVer)),
      make('mcp.json', createServers(addresses)),
      ...skills.map((file) => ({ ...file, path: `${plugin.slug}/${file.path}` })),
    ],
    // A fixed time, so that the same version packs to the same bytes. Not compressed: a small upload may unpack to 1 GiB, and
    // to deflate that would keep the threads busy that read the files of all accounts.
    { compress: false, mtime: new Date(version.createdAt) },
  );
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
