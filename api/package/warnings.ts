/** Finds likely mistakes in a package. Draft, publish and check show them; they never prevent a publish. */
import { mapPosition } from '../../db/records/source-maps.ts';
import { findHostFault, findMissingCapabilities } from '../../sdk/contract/capabilities.ts';
import { formatLocation } from '../../sdk/contract/errors.ts';
import type { Manifest } from '../../sdk/contract/manifest.ts';
import { capabilities, hostCalls } from '../../sdk/contract/protocol.ts';
import { cutQuoted } from '../../service/text/quoted-text.ts';
import { LoopSlices } from '../../service/timing/loop-turns.ts';
import { findFieldWarnings } from './field-warnings.ts';
import { LineIndex } from './line-index.ts';
import type { Prompt } from './prompts.ts';

/** Warnings of one build. */
export const WARNINGS_MAX = 20;
/** Code that uses `host` as a value may use any member, so nothing is reported. */
const WHOLE_HOST = /\bhost\b(?!\s*\.\s*[A-Za-z_$])/;
/** A use of the global `fetch`, which sends its requests with `host.http`. A method of that name does not count. */
const GLOBAL_FETCH = /(?<![\w$.])fetch\b|\b(?:globalThis|self|global)\s*\??\.\s*fetch\b/;
const MEMBERS = [...Object.keys(capabilities), 'http'];

interface Warned {
  readonly manifest: Manifest;
  /** The bundle, without comments. */
  readonly code: string;
  /** Of the bundle. */
  readonly sourceMap: string;
  readonly commands: readonly Prompt[];
  readonly bundling: readonly string[];
  readonly unusedFiles: readonly string[];
}

/**
 * Returns one sentence per warning: declared but unused, used but undeclared, or without a description.
 *
 * @param loopKey whose turns of the event loop it uses: one search of a bundle of megabytes takes milliseconds
 */
export async function findWarnings(
  { manifest, code, sourceMap, commands, bundling, unusedFiles }: Warned,
  loopKey: string,
): Promise<string[]> {
  const slices = new LoopSlices(loopKey);
  const declared = [...new Set(manifest.capabilities)];
  const found = [
    ...(WHOLE_HOST.test(code) ? [] : findMemberWarnings(declared, await findMembers(declared, code, slices))),
    ...(await findWriteWarnings(declared, code, slices)),
    ...(await findHostWarnings(declared, code, sourceMap, slices)),
    ...(await findFieldWarnings(manifest, { code, sourceMap }, slices, WARNINGS_MAX)),
    ...commands
      .filter(({ description }) => description === '')
      .map(({ path }) => `${path} has no description: menus show its name alone.`),
    ...bundling,
    ...unusedFiles,
  ];
  return found.slice(0, WARNINGS_MAX);
}

/** The members of `host` that the code uses, also as `fetch`. */
async function findMembers(declared: readonly string[], code: string, slices: LoopSlices): Promise<Set<string>> {
  const used = new Set<string>();
  for (const [, member = ''] of code.matchAll(/\bhost\s*\.\s*([A-Za-z_$][\w$]*)/g)) {
    await slices.pauseWhenOver();
    used.add(member);
  }
  await slices.pauseWhenOver();
  // Without a declared host there is no `fetch`, which the bundling reports.
  if (declared.some(isHostCapability) && GLOBAL_FETCH.test(code)) used.add('http');
  return used;
}

const isHostCapability = (capability: string): boolean => capability.startsWith('host.http:');

function findMemberWarnings(declared: readonly string[], used: ReadonlySet<string>): string[] {
  const members = new Set(declared.map((capability) => /^host\.(\w+)/.exec(capability)?.[1] ?? ''));
  const idle = declared.filter((capability) => !used.has(/^host\.(\w+)/.exec(capability)?.[1] ?? ''));
  const missing = MEMBERS.filter((member) => used.has(member) && !members.has(member));
  return [
    ...idle.map(
      (capability) => `${capability} is declared but never used. Remove it, so that users need not grant it.`,
    ),
    ...missing.map((member) => {
      const capability = member === 'http' ? 'host.http:<host>' : `host.${member}`;
      return `host.${member} is used but not declared, so it will be undefined. Add ${capability} to the capabilities.`;
    }),
  ];
}

/** Calls that write, of members that are declared for reading only. */
async function findWriteWarnings(declared: readonly string[], code: string, slices: LoopSlices): Promise<string[]> {
  const found: string[] = [];
  for (const [name, { capability, readable }] of Object.entries(hostCalls)) {
    const isReadOnly = declared.includes(`host.${capability}:read`) && !declared.includes(`host.${capability}`);
    if (readable || !isReadOnly) continue;
    const [member, method] = name.split('.');
    await slices.pauseWhenOver();
    if (!new RegExp(`\\bhost\\s*\\.\\s*${member}\\s*\\.\\s*${method}\\b`).test(code)) continue;
    found.push(
      `host.${name} is used, but only host.${capability}:read is declared, so it will be undefined. Declare host.${capability}.`,
    );
  }
  return found;
}

/** A request whose address is a literal. The name must end in it: `"https://api-".concat(x)` is not complete. */
const REQUEST =
  /(?<![\w$.])(?:host\s*\.\s*http\s*\.\s*)?fetch\(\s*["']https?:\/\/([a-z0-9.-]+)(?:[/?#:]|["']\s*[,)])/gi;

/** Requests to hosts that are not declared, in packages that declare others. */
async function findHostWarnings(
  declared: readonly string[],
  code: string,
  sourceMap: string,
  slices: LoopSlices,
): Promise<string[]> {
  if (!declared.some(isHostCapability)) return [];
  const asked = new Set<string>();
  const missing: { readonly host: string; readonly offset: number }[] = [];
  for (const { 1: name = '', index: offset } of code.matchAll(REQUEST)) {
    await slices.pauseWhenOver();
    const host = name.toLowerCase();
    if (asked.has(host)) continue;
    asked.add(host);
    if (findMissingCapabilities([`host.http:${host}`], declared).length > 0) missing.push({ host, offset });
    if (missing.length === WARNINGS_MAX) break;
  }
  if (missing.length === 0) return [];
  const lines = new LineIndex(code);
  return missing.map(({ host, offset }) =>
    formatLocation({ ...mapPosition(sourceMap, lines.locate(offset)), message: describeRefusedHost(host) }),
  );
}

function describeRefusedHost(host: string): string {
  const fault = findHostFault(host);
  return fault === null
    ? `The code sends a request to a host that is not declared, so it will be refused. Declare host.http:${host}.`
    : `The code sends a request to “${cutQuoted(host)}”, which will be refused: ${fault}.`;
}
