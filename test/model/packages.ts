/** The packages and version numbers the model plays with: few, so that they meet again and again, and each with a twist. */
import { type Files, INDEX, MINIMAL, readmeWith } from '../api/package/packages.ts';

export interface ModelPackage {
  readonly name: string;
  readonly files: Files;
  /** The capabilities that a version of it requests, sorted. Empty: the package is refused. */
  readonly capabilities: readonly string[];
  /** Required settings with the values they take. */
  readonly settings: Readonly<Record<string, readonly string[]>>;
  /** Required secrets. */
  readonly secrets: readonly string[];
}

const HOOK = 'middleware.systemPrompt';
const TOOL = "tools.a = { description: 'a', parameters: { type: 'object' }, handler: () => 'a' };\n";

function declaring(name: string, ...capabilities: string[]): ModelPackage {
  const readme = readmeWith(`capabilities: ${JSON.stringify(capabilities)}`);
  const files = { 'readme.md': readme, 'index.ts': INDEX };
  return { name, files, capabilities: [...capabilities, HOOK].sort(), settings: {}, secrets: [] };
}
const plain = { capabilities: [HOOK], settings: {}, secrets: [] };

export const packages: readonly ModelPackage[] = [
  { ...plain, name: 'plain', files: MINIMAL },
  { ...plain, name: 'tool', files: { ...MINIMAL, 'index.ts': INDEX + TOOL }, capabilities: [HOOK, 'tools.a'] },
  declaring('wide net', 'host.http:*.example.com'),
  declaring('narrow net', 'host.http:api.example.com'),
  declaring('writer', 'host.workspace'),
  declaring('reader', 'host.workspace:read'),
  {
    ...plain,
    name: 'asking',
    files: {
      'readme.md': readmeWith(
        'settings: { city: { required: true, enum: [bern, rome] } }',
        'secrets: { apiKey: { required: true } }',
      ),
      'index.ts': INDEX,
    },
    settings: { city: ['bern', 'rome'] },
    capabilities: [HOOK, 'secrets.apiKey'],
    secrets: ['apiKey'],
  },
  {
    ...plain,
    name: 'picky',
    files: { 'readme.md': readmeWith('settings: { city: { required: true, enum: [oslo, rome] } }'), 'index.ts': INDEX },
    settings: { city: ['oslo', 'rome'] },
  },
  { ...plain, name: 'broken', files: { 'index.ts': INDEX }, capabilities: [] },
];

/** Version numbers by precedence, lowest first. */
export const numbers = [
  ...['0.9.0', '1.0.0-alpha', '1.0.0-rc.2', '1.0.0-rc.10', '1.0.0', '1.2.0', '1.10.0-beta', '1.10.0'],
  ...['2.0.0-1', '2.0.0', '2.0.1', '10.0.0-rc.1', '10.0.0', '11.0.0'],
];
export const isStable = (semVer: string): boolean => !semVer.includes('-');
/** Invalid version numbers that some parsers accept. */
export const malformed = ['v1.0.0', '1.0', '1.0.0+build', ' 1.0.0'];

/** Besides itself, what a grant covers. */
export const wider: Readonly<Record<string, string>> = {
  'host.http:api.example.com': 'host.http:*.example.com',
  'host.workspace:read': 'host.workspace',
};
export const isWithin = (granted: readonly string[], capability: string): boolean =>
  // A secret without a handle needs no consent: the user gives its value.
  capability === 'secrets.apiKey' || granted.includes(capability) || granted.includes(wider[capability] ?? capability);
