/** Programs that the compiler refuses with the SDK's own options, and how the first error begins or what it names. */
export interface WrongProgram {
  readonly title: string;
  readonly code: string;
  readonly error: RegExp;
}

const tool = (rest: string): string => `tools.greet = { description: 'Greets', ${rest} };`;

export const wrongPrograms: readonly WrongProgram[] = [
  { title: 'a hook returns a number', code: 'middleware.systemPrompt = (ctx) => 42;', error: /^Type .*number/ },
  { title: 'so does an asynchronous one', code: 'middleware.systemPrompt = async () => 42;', error: /Promise<number>/ },
  { title: 'a misspelt property', code: 'middleware.systemPrompt = (ctx) => ctx.systemPromt;', error: /'systemPromt'/ },
  { title: 'no such hook', code: 'middleware.sytemPrompt = () => undefined;', error: /'sytemPrompt'/ },
  { title: 'no veto there', code: "middleware.systemPrompt = (ctx) => ctx.cancel('no');", error: /'cancel'/ },
  {
    title: 'a veto without a reason',
    code: 'middleware.inboundMessage = (ctx) => ctx.cancel();',
    error: /^Expected 1/,
  },
  {
    title: 'an answer of another shape',
    code: "middleware.inboundMessage = () => ({ message: { txt: 'hello' } });",
    error: /txt/,
  },
  { title: 'no such event', code: 'events.pluginInstaled = () => {};', error: /'pluginInstaled'/ },
  { title: 'an event with an answer', code: 'events.pluginInstalled = () => 7;', error: /^Type .*number/ },
  {
    title: 'data that an event does not have',
    code: 'events.pluginInstalled = (event) => host.log(event.nothing);',
    error: /'nothing'/,
  },
  { title: 'a tool without a handler', code: tool("parameters: { type: 'object' }"), error: /'handler' is missing/ },
  { title: 'a tool without parameters', code: tool("handler: () => 'hello'"), error: /'parameters' is missing/ },
  {
    title: 'parameters that are no schema',
    code: tool("parameters: 'object', handler: () => 'hello'"),
    error: /^Type 'string'/,
  },
  {
    title: 'a description that is no text',
    code: "tools.greet = { description: 7, parameters: { type: 'object' }, handler: () => 'hello' };",
    error: /^Type 'number'/,
  },
  { title: 'a command without a description', code: "commands.hello = { handler: () => 'hello' };", error: /missing/ },
  { title: 'no such host call', code: "await host.storage.read('key');", error: /'read'/ },
  { title: 'a missing argument', code: "await host.storage.set('key');", error: /^Expected 2/ },
  { title: 'a forgotten await', code: "const words: string = host.storage.get('key');", error: /^Type 'Promise/ },
  { title: 'a log line that is no text', code: 'host.log(42);', error: /^Argument of type 'number'/ },
  { title: 'a global of browsers', code: "document.title = 'hello';", error: /'document'/ },
  { title: 'a global of Node', code: 'process.exit(1);', error: /'process'/ },
  { title: 'an object of Node', code: 'process.nextTick(() => {});', error: /'process'/ },
  { title: 'memory that threads share', code: 'new SharedArrayBuffer(8);', error: /'SharedArrayBuffer'/ },
  {
    title: 'a module of Node',
    code: "import { readFile } from 'node:fs/promises';\nawait readFile('x');",
    error: /'node:fs\/promises'/,
  },
  {
    title: 'a file that is not there',
    code: "import { words } from './words.ts';\nhost.log(words);",
    error: /'\.\/words\.ts'/,
  },
  { title: 'an element that may be missing', code: "const first: string = ['a', 'b'][0];", error: /undefined/ },
  {
    title: 'a value that may be null',
    code: "const words: string | null = JSON.parse('null');\nhost.log(words.trim());",
    error: /possibly 'null'/,
  },
  { title: 'a parameter without a type', code: 'const twice = (value) => value * 2;\ntwice(2);', error: /'any'/ },
  {
    title: 'syntax',
    code: 'middleware.systemPrompt = (ctx) => {\n  return ctx.systemPrompt +;\n};',
    error: /^Expression expected/,
  },
  { title: 'an export of another type', code: "export const words: number = 'hello';", error: /^Type 'string'/ },
];
