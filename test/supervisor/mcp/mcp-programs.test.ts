/** The programs of the protocol's makers against a session: the Inspector's command line, and their conformance suite. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { checkTable } from '../../corpora/agreement-page.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { installPackages } from '../../runner/installed-packages.ts';
import { soakTest } from '../../runner/soak.ts';
import { startSupervisorFixture } from '../supervisor-fixture.ts';

const run = promisify(execFile);
const { resolve } = createRequire(import.meta.url);
const INSPECTOR = fileURLToPath(new URL('../../inspector', import.meta.url));
const PROGRAM_MS = 240_000;

const fixture = await startSupervisorFixture(t);
const service = await fixture.app.listen({ port: 0, host: '127.0.0.1' });
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const schema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: { address: { type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } } },
  properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } },
  additionalProperties: false,
};
/** A plugin with everything that the suite requires of a server. */
const code = `
  const tool = (description, handler, parameters = {}) => ({ description, parameters, handler });
  tools.test_simple_text = tool('Text', () => 'This is a simple text response for testing.');
  tools.test_image_content = tool('Image', () => ({ content: [{ type: 'image', data: '${PIXEL}', mimeType: 'image/png' }] }));
  tools.test_error_handling = tool('Fails', () => { throw new Error('This tool intentionally returns an error for testing'); });
  tools.json_schema_2020_12_tool = tool('Schema', () => 'ok', ${JSON.stringify(schema)});
  commands.test_simple_prompt = { description: 'Prompt', handler: () => 'This is a simple prompt for testing.' };
`;
const skill = '---\nname: text\ndescription: A text\n---\nThis is the content of the static text resource.';
await fixture.install({
  slug: 'kit',
  code,
  files: { 'skills/text/SKILL.md': skill, 'skills/text/pixel.png': Buffer.from(PIXEL, 'base64') },
  discovered: { skills: [{ name: 'text', description: 'A text' }], commands: [] },
});
const url = `${service}/sessions/${await fixture.session()}/mcp`;
const authorization = `Bearer ${await fixture.issuer.issue('ann')}`;

soakTest(t, 'the Inspector’s command line lists and calls', async (t) => {
  const home = await temporaryFolder(t);
  await installPackages(INSPECTOR);
  const program = 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js';
  const inspect = async (...args: string[]) => {
    const flags = [
      '--cli',
      url,
      '--transport',
      'http',
      '--header',
      `Authorization: ${authorization}`,
      '--format',
      'json',
    ];
    const options = { env: { ...process.env, HOME: home }, cwd: home, timeout: PROGRAM_MS };
    const { stdout } = await run(process.execPath, [join(INSPECTOR, program), ...flags, ...args], options);
    return JSON.parse(stdout);
  };
  const listed = await inspect('--method', 'tools/list');
  t.match(JSON.stringify(listed), /"name":"kit__test_simple_text"/);
  const called = await inspect('--method', 'tools/call', '--tool-name', 'kit__test_simple_text');
  t.match(JSON.stringify(called), /This is a simple text response/);
  const prompted = await inspect('--method', 'prompts/get', '--prompt-name', 'kit__test_simple_prompt');
  t.match(JSON.stringify(prompted), /This is a simple prompt/);
});

/** Features that the suite assumes and a session does not have, each with the reason. */
const NOT_OFFERED: Readonly<Record<string, string>> = {
  'logging-set-level': 'plugins log to their account, not to clients',
  'tools-call-with-logging': 'the same',
  'completion-complete': 'commands have one free text as argument',
  'prompts-get-with-args': 'the same',
  'tools-call-audio': 'contents of tools are text, image and JSON',
  'tools-call-embedded-resource': 'the same',
  'tools-call-mixed-content': 'the same',
  'prompts-get-embedded-resource': 'prompts are text',
  'prompts-get-with-image': 'the same',
  'tools-call-with-progress': 'the host reports progress of long calls every two seconds; plugins do not',
  'tools-call-sampling': 'plugins ask models over host.llm',
  'tools-call-elicitation': 'plugins ask no person in the middle of a call',
  'elicitation-sep1034-defaults': 'the same',
  'elicitation-sep1330-enums': 'the same',
  'resources-templates-read': 'the one template is of media ids',
  'resources-subscribe': 'a version’s files never change',
  'resources-unsubscribe': 'the same',
  'dns-rebinding-protection': 'for servers without sign-in; here every request needs a token',
};
/** The suite’s names, and ours: plugins’ names come after their slug, and addresses are those of skills. */
const names = [
  ['test://static-text', 'skill://kit__text/SKILL.md'],
  ['test://static-binary', 'skill://kit__text/pixel.png'],
  ['"test_', '"kit__test_'],
  ['"json_schema_', '"kit__json_schema_'],
] as const;
const toOurs = (text: string): string => names.reduce((said, [theirs, ours]) => said.replaceAll(theirs, ours), text);
const toTheirs = (text: string): string => names.reduce((said, [theirs, ours]) => said.replaceAll(ours, theirs), text);

t.test('the table of agreement is current', async (t) => {
  const rows = Object.entries(NOT_OFFERED).map(([scenario, why], at, all) => {
    const named = all.slice(0, at + 1).findLast(([, reason]) => reason !== 'the same');
    return [scenario, named?.[1] ?? why];
  });
  await checkTable(t, 'Model Context Protocol', ['Scenario', 'Why it is not offered'], rows);
});

t.test('the conformance suite passes but for what is not offered', async (t) => {
  const folder = await temporaryFolder(t);
  const baseline = join(folder, 'baseline.yml');
  await writeFile(baseline, JSON.stringify({ server: Object.keys(NOT_OFFERED) }));
  await mkdir(join(folder, 'results'));
  // The suite sends no token and fixes its names.
  const front = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const headers = Object.entries(request.headers).filter(([name]) =>
      /^(accept|content-type|mcp-|last-event)/.test(name),
    );
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    try {
      const answer = await fetch(url, {
        method: request.method ?? 'GET',
        signal: gone.signal,
        headers: { ...(Object.fromEntries(headers) as Record<string, string>), authorization },
        ...(chunks.length > 0 ? { body: toOurs(Buffer.concat(chunks).toString('utf8')) } : {}),
      });
      const kept = [...answer.headers].filter(([name]) => /^(content-type|mcp-)/.test(name));
      response.writeHead(answer.status, Object.fromEntries(kept));
      response.flushHeaders();
      for await (const chunk of answer.body ?? []) response.write(toTheirs(Buffer.from(chunk).toString('utf8')));
      response.end();
    } catch {
      response.destroy();
    }
  }).listen(0, '127.0.0.1');
  await once(front, 'listening');
  t.teardown(async () => {
    front.closeAllConnections();
    front.close();
    await once(front, 'close');
  });
  const suite = join(dirname(resolve('@modelcontextprotocol/conformance/package.json')), 'dist/index.js');
  const address = `http://localhost:${(front.address() as AddressInfo).port}/mcp`;
  const args = ['server', '--url', address, '--expected-failures', baseline, '-o', join(folder, 'results')];
  const ended = await run(process.execPath, [suite, ...args], { cwd: folder, timeout: PROGRAM_MS }).then(
    ({ stdout }) => ({ code: 0, stdout }),
    (error: { code: number; stdout: string }) => error,
  );
  t.equal(ended.code, 0, 'nothing fails that should pass, and nothing passes that is said to fail');
  t.comment(ended.stdout.slice(ended.stdout.lastIndexOf('=== SUMMARY')));
});
