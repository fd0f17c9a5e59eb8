/** What is allowed in a package and still looks like a slip: told with a draft, never a reason to refuse. */
import type { Manifest } from '../../sdk/contract/manifest.ts';
import { capabilities } from '../../sdk/contract/protocol.ts';
import type { Prompt } from './prompts.ts';

/** Warnings of one draft; an author mends a few and saves again. */
const WARNINGS_MAX = 20;
/** Code that takes `host` as a whole may use any member: nothing can be said about it. */
const WHOLE_HOST = /\bhost\b(?!\s*\.\s*[A-Za-z_$])/;
const MEMBERS = [...Object.keys(capabilities), 'http'];

export interface Warned {
  readonly manifest: Manifest;
  /** The bundle, without comments. */
  readonly code: string;
  readonly commands: readonly Prompt[];
}

/** One sentence each: declared and not used, used and not declared, offered without a word. */
export function findWarnings({ manifest, code, commands }: Warned): string[] {
  const found = [
    ...(WHOLE_HOST.test(code) ? [] : memberWarnings(manifest.capabilities, usedMembers(code))),
    ...unread('setting', Object.keys(manifest.settings ?? {}), code),
    ...unread('secret', Object.keys(manifest.secrets ?? {}), code),
    ...commands
      .filter(({ description }) => description === '')
      .map(({ path }) => `${path} has no description: menus show its name alone.`),
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
    ...idle.map((capability) => `${capability} is declared and never used: users are asked for it in vain.`),
    ...missing.map((member) => {
      const capability = member === 'http' ? 'host.http:<host>' : `host.${member}`;
      return `host.${member} is used and not declared: it will be undefined. Add ${capability} to the capabilities.`;
    }),
  ];
}

function unread(kind: 'setting' | 'secret', names: readonly string[], code: string): string[] {
  // Settings may be read as a whole, and secrets by a name that is put together.
  const all =
    kind === 'setting' ? /\bsettings\b(?!\s*(?:\.\s*[A-Za-z_$]|\[\s*["']))/ : /\bsecrets\b(?!\s*\.\s*get\(\s*["'])/;
  if (all.test(code)) return [];
  return names
    .filter((name) => !code.includes(name))
    .map((name) => `The ${kind} “${name}” is declared and never read.`);
}
