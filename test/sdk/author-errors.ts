/** Common mistakes of plugin authors: a folder and a command for each. */

export interface Mistake {
  /** A heading of docs/errors-authors.md. */
  readonly title: string;
  readonly args: readonly string[];
  /** Files that replace those of a valid package; null removes a file. */
  readonly files?: Readonly<Record<string, string | null>>;
  /** `ann` owns the plugin “weather”, `bob` owns nothing, `nobody` is not signed in. */
  readonly as?: 'ann' | 'bob' | 'nobody' | 'expired';
  readonly exit: number;
  /** Only a soak run makes it: a check of the folder takes as much processor time as all the commands that check nothing. */
  readonly isRare?: true;
}

const README = '---\nname: Weather\ndescription: Tells the weather\n---\n\n# Weather\n';
const INDEX = `tools.forecast = {
  description: 'Tells the weather of a place',
  parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
  handler: ({ place }: { place: string }) => \`Sunny in \${place}\`,
};
`;
export const GOOD: Readonly<Record<string, string>> = {
  'readme.md': README,
  'index.ts': INDEX,
  'package.json': '{ "bulkhead": { "slug": "weather" } }',
};
const declaring = (capability: string) => README.replace('---\n\n#', `capabilities: [${capability}]\n---\n\n#`);
const CHANGED = { 'index.ts': `${INDEX}// changed\n` };

export const mistakes: readonly Mistake[] = [
  { title: 'Not signed in', args: ['publish'], as: 'nobody', exit: 4 },
  { title: 'The token has expired', args: ['publish'], as: 'expired', exit: 4 },
  { title: 'The service is unreachable', args: ['status', '--url', 'http://localhost:1'], exit: 5 },
  { title: 'The folder has no package', args: ['check'], files: { 'readme.md': null, 'index.ts': null }, exit: 2 },
  { title: 'readme.md is missing', args: ['check'], files: { 'readme.md': null }, exit: 3 },
  {
    title: 'readme.md has no frontmatter',
    args: ['check'],
    isRare: true,
    files: { 'readme.md': '# Weather\n' },
    exit: 3,
  },
  {
    title: 'A frontmatter field is misspelt',
    args: ['check'],
    exit: 3,
    files: { 'readme.md': README.replace('description', 'descripton') },
  },
  {
    title: 'A capability is misspelt',
    args: ['check'],
    isRare: true,
    files: { 'readme.md': declaring('host.lm') },
    exit: 3,
  },
  {
    title: 'A host is declared with its scheme',
    args: ['check'],
    isRare: true,
    files: { 'readme.md': declaring('host.http:https://api.example.com') },
    exit: 3,
  },
  {
    title: 'A capability is used but not declared',
    args: ['check'],
    isRare: true,
    exit: 0,
    files: { 'index.ts': INDEX.replace('=> `', "=> host.storage.set('last', place) && `") },
  },
  {
    title: 'A setting or a secret is misspelt',
    args: ['check'],
    isRare: true,
    exit: 0,
    files: {
      'readme.md': README.replace('---\n\n#', 'settings: { city: {} }\nsecrets: { token: {} }\n---\n\n#'),
      'index.ts': INDEX.replace(
        '({ place }: { place: string }) =>',
        "async ({ place = host.settings.citi }) => (await host.secrets.get('tokne')) &&",
      ),
    },
  },
  {
    title: 'A folder is misspelt',
    args: ['check'],
    isRare: true,
    exit: 0,
    files: { 'command/review.md': 'Review this.\n', 'lib/old.ts': 'export {};\n' },
  },
  {
    title: 'A hook is misspelt',
    args: ['check'],
    exit: 3,
    files: { 'index.ts': 'middleware.systemPromt = (ctx) => ctx.systemPrompt;\n' },
  },
  {
    title: 'A hook has two handlers',
    args: ['check'],
    isRare: true,
    files: {
      'index.ts': `import './redact';\n${INDEX}middleware.inboundMessage = () => {};\n`,
      'redact.ts': "middleware.inboundMessage = (ctx) => ctx.cancel('It has a card number.');\n",
    },
    exit: 3,
  },
  {
    title: 'A group is assigned',
    args: ['check'],
    isRare: true,
    files: { 'index.ts': `${INDEX}middleware = { inboundMessage() {} };\n` },
    exit: 3,
  },
  {
    title: 'A group is misspelt',
    args: ['check'],
    isRare: true,
    files: { 'index.ts': INDEX.replace('tools', 'tool') },
    exit: 3,
  },
  {
    title: 'A JSON Schema is not valid',
    args: ['check'],
    files: { 'index.ts': INDEX.replace("'object'", "'objekt'") },
    exit: 3,
  },
  {
    title: 'A keyword of a JSON Schema is misspelt',
    args: ['check'],
    isRare: true,
    files: { 'index.ts': INDEX.replace('properties', 'propertis') },
    exit: 0,
  },
  {
    title: 'The arguments of a tool cannot be an object',
    args: ['check'],
    isRare: true,
    files: { 'index.ts': INDEX.replace("'object'", "'string'") },
    exit: 3,
  },
  {
    title: 'The name of a tool is too long',
    args: ['check'],
    isRare: true,
    files: { 'index.ts': INDEX.replace('forecast', 'forecastForTheWholeWeekInTheMountainsAndAtTheSeaForEveryHour') },
    exit: 3,
  },
  {
    title: 'The description of a tool hides a text',
    args: ['check'],
    isRare: true,
    files: { 'index.ts': INDEX.replace('of a place', 'of a\\u{E0061} place') },
    exit: 3,
  },
  {
    title: 'The readme hides a text',
    args: ['check'],
    isRare: true,
    files: { 'readme.md': `${README}\nFor\u202e rain.\n` },
    exit: 3,
  },
  { title: 'The code has a syntax error', args: ['check'], files: { 'index.ts': INDEX.replace('};\n', '') }, exit: 3 },
  {
    title: 'Host is used while the code loads',
    args: ['check'],
    isRare: true,
    files: { 'readme.md': declaring('host.storage'), 'index.ts': `const last = host.storage.get('last');\n${INDEX}` },
    exit: 3,
  },
  {
    title: 'An npm package is imported',
    args: ['check'],
    isRare: true,
    files: { 'index.ts': `import 'lodash';\n${INDEX}` },
    exit: 3,
  },
  {
    title: 'An import has a wrong path',
    args: ['check'],
    isRare: true,
    exit: 3,
    files: { 'index.ts': `import './plases.ts';\n${INDEX}`, 'places.ts': 'export {};\n' },
  },
  {
    title: 'An export is missing',
    args: ['check'],
    isRare: true,
    exit: 3,
    files: {
      'index.ts': `import { places } from './places.ts';\n${INDEX}places();\n`,
      'places.ts': "const places = () => ['Rome'];\n",
    },
  },
  {
    title: 'A Node API is used',
    args: ['check'],
    isRare: true,
    files: { 'index.ts': `process.cwd();\n${INDEX}` },
    exit: 3,
  },
  {
    title: 'A name is misspelt',
    args: ['check'],
    isRare: true,
    files: { 'index.ts': `const isAdmin = true;\nif (!isAdmn) host.log('a guest');\n${INDEX}` },
    exit: 3,
  },
  {
    title: 'A file is imported by a computed path',
    args: ['check'],
    isRare: true,
    files: { 'index.ts': `const name = './places.ts';\nawait import(name);\n${INDEX}` },
    exit: 3,
  },
  { title: 'Nothing is registered', args: ['check'], isRare: true, files: { 'index.ts': '// later\n' }, exit: 3 },
  {
    title: 'The bundle is too large',
    args: ['check'],
    isRare: true,
    exit: 3,
    files: { 'index.ts': `const much = '${'x'.repeat(4_000_000)}';\nhost.log(much);\n${INDEX}` },
  },
  { title: 'The slug is taken', args: ['publish', '--yes'], as: 'bob', exit: 1 },
  {
    title: 'The version already exists',
    args: ['publish', '--version', '1.0.0'],
    isRare: true,
    files: CHANGED,
    exit: 1,
  },
  { title: 'The version number is not valid', args: ['publish', '--version', 'v2'], files: CHANGED, exit: 2 },
  { title: 'Nothing has changed', args: ['publish'], exit: 1 },
  { title: 'The last version is yanked', args: ['yank', '1.0.0'], exit: 1 },
  { title: 'An unknown version is yanked', args: ['yank', '9.0.0'], exit: 1 },
  { title: 'A plugin is installed without a terminal', args: ['install', 'weather'], exit: 2 },
  { title: 'A token is on the command line', args: ['login', '--token', 'eyJhbGciOi'], exit: 2 },
  { title: 'The plugin is already installed', args: ['install', 'weather', '--yes'], exit: 1 },
  { title: 'An unknown plugin is installed', args: ['install', 'wether'], exit: 1 },
  { title: 'A draft is installed before it is saved', args: ['install', 'weather', '--draft'], exit: 1 },
  { title: 'There is no update to accept', args: ['accept', 'weather'], exit: 1 },
  { title: 'An unknown command', args: ['publsh'], exit: 2 },
];
