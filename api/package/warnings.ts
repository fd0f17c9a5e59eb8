/** Finds likely mistakes in a package. Draft, publish and check show them; they never prevent a publish. */
import { findMissingCapabilities } from '../../sdk/contract/capabilities.ts';
import type { Manifest } from '../../sdk/contract/manifest.ts';
import { capabilities, hostCalls } from '../../sdk/contract/protocol.ts';
import type { Prompt } from './prompts.ts';

const WARNINGS_MAX = 20;
/** Code that uses `host` as a value may use any member, so nothing is reported. */
const WHOLE_HOST = /\bhost\b(?!\s*\.\s*[A-Za-z_$])/;
const MEMBERS = [...Object.keys(capabilities), 'http'];

interface Warned {
  readonly manifest: Manifest;
  /** The bundle, without comments. */
  readonly code: string;
  readonly commands: readonly Prompt[];
  readonly bundling: readonly string[];
  readonly unusedFiles: readonly string[];
}

/** Returns one sentence per warning: declared but unused, used but undeclared, or without a description. */
export function findWarnings({ manifest, code, commands, bundling, unusedFiles }: Warned): string[] {
  const found = [
    ...(WHOLE_HOST.test(code) ? [] : memberWarnings([...new Set(manifest.capabilities)], usedMembers(code))),
    ...writeWarnings(manifest.capabilities, code),
    ...hostWarnings(manifest.capabilities, code),
    ...unread('setting', Object.keys(manifest.settings ?? {}), code),
    ...unread('secret', Object.keys(manifest.secrets ?? {}), code),
    ...commands
      .filter(({ description }) => description === '')
      .map(({ path }) => `${path} has no description: menus show its name alone.`),
    ...bundling,
    ...unusedFiles,
  ];
  return found.slice(0, WARNINGS_MAX);
}

function usedMembers(code: string): Set<string> {
  return new Set([...code.matchAll(/\bhost\s*\.\s*([A-Za-z_$][\w$]*)/g)].map(([, member = '']) => member));
}

function memberWarnings(declared: readonly string[], used: ReadonlySet<string>): string[] {
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
function writeWarnings(declared: readonly string[], code: string): string[] {
  return Object.entries(hostCalls).flatMap(([name, { capability, readable }]) => {
    const isReadOnly = declared.includes(`host.${capability}:read`) && !declared.includes(`host.${capability}`);
    if (readable || !isReadOnly) return [];
    const [member, method] = name.split('.');
    if (!new RegExp(`\\bhost\\s*\\.\\s*${member}\\s*\\.\\s*${method}\\b`).test(code)) return [];
    return [
      `host.${name} is used, but only host.${capability}:read is declared, so it will be undefined. Declare host.${capability}.`,
    ];
  });
}

/** A request whose address is a literal. The name must end in it: `"https://api-".concat(x)` is not complete. */
const REQUEST =
  /(?<![\w$.])(?:host\s*\.\s*http\s*\.\s*)?fetch\(\s*["']https?:\/\/([a-z0-9.-]+)(?:[/?#:]|["']\s*[,)])/gi;

/** Requests to hosts that are not declared, in packages that declare others. */
function hostWarnings(declared: readonly string[], code: string): string[] {
  if (!declared.some((capability) => capability.startsWith('host.http:'))) return [];
  const asked = [...code.matchAll(REQUEST)].map(([, host = '']) => `host.http:${host.toLowerCase()}`);
  return findMissingCapabilities([...new Set(asked)], declared).map(
    (capability) =>
      `The code sends a request to a host that is not declared, so it will be refused. Declare ${capability}.`,
  );
}

function unread(kind: 'setting' | 'secret', names: readonly string[], code: string): string[] {
  // Settings may be read as a whole, and secrets by a computed name.
  const all =
    kind === 'setting' ? /\bsettings\b(?!\s*(?:\.\s*[A-Za-z_$]|\[\s*["']))/ : /\bsecrets\b(?!\s*\.\s*get\(\s*["'])/;
  if (all.test(code)) return [];
  return names
    .filter((name) => !code.includes(name))
    .map((name) => `The ${kind} “${name}” is declared but never read.`);
}
