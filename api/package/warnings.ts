/** Finds likely mistakes in a package. Draft, publish and check show them; they never prevent a publish. */
import type { Manifest } from '../../sdk/contract/manifest.ts';
import { capabilities } from '../../sdk/contract/protocol.ts';
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
    ...(WHOLE_HOST.test(code) ? [] : memberWarnings(manifest.capabilities, usedMembers(code))),
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

function unread(kind: 'setting' | 'secret', names: readonly string[], code: string): string[] {
  // Settings may be read as a whole, and secrets by a computed name.
  const all =
    kind === 'setting' ? /\bsettings\b(?!\s*(?:\.\s*[A-Za-z_$]|\[\s*["']))/ : /\bsecrets\b(?!\s*\.\s*get\(\s*["'])/;
  if (all.test(code)) return [];
  return names
    .filter((name) => !code.includes(name))
    .map((name) => `The ${kind} “${name}” is declared but never read.`);
}
