/** Specification: what the service does, and the plugin code surface. */
import { ensure, expect, holding } from '../expect.ts';
import { fileList, packageOf } from '../packages.ts';
import { kitPackage } from '../plugins/kit.ts';
import { type Chapter, row, unchecked } from '../row.ts';
import type { Run } from '../run.ts';

const compact = async (run: Run, focus: string) => {
  await run.kit();
  const body = { focus, messages: [{ id: 'm', role: 'user', text: 'hello', at: '2026-01-01T00:00:00Z' }] };
  return run.own.session('POST', `/sessions/${await run.session()}/compaction`, body);
};
const fallsBack = async (run: Run, focus: string) => {
  const session = await run.newSession('compacted');
  await run.kit();
  const answer = await run.own.session('POST', `/sessions/${session}/compaction`, { focus });
  const transcript = await run.own.session('GET', `/sessions/${session}/messages`);
  return { answer, transcript };
};

export const surface: Chapter = {
  title: 'Specification: plugin code surface',
  rows: [
    row('A plugin declares hooks and receives exactly those.', async (run) => {
      const { installationId } = await run.kit();
      const { body } = await run.own.session('GET', `/sessions/${await run.session()}/hooks`);
      const names = body.items
        .filter((item: { installationId: string }) => item.installationId === installationId)
        .map(({ name }: { name: string }) => name);
      const declared = String(kitPackage['index.ts']).matchAll(/^middleware\.(\w+) =/gm);
      expect(names.toSorted(), Array.from(declared, ([, name]) => name).toSorted(), 'the hooks of the kit');
    }),
    row('Presence of a member on host is the grant.', async (run) => {
      const names = ['storage.get', 'session.messages', 'ssh.hosts', 'ssh.run', 'llm', 'llm.complete'];
      expect(await run.tool('types', { of: 'host', names }), {
        'storage.get': 'function',
        'session.messages': 'function',
        'ssh.hosts': 'function',
        'ssh.run': 'undefined',
        llm: 'undefined',
        'llm.complete': 'undefined',
      });
    }),
    row(
      'A plugin that declares only the system-prompt hook cannot read files, open sockets or see another agent’s session.',
      async (run) => {
        const { id } = await run.createPlugin('only-prompt');
        const code = (look: string) => `middleware.systemPrompt = () => String(typeof ${look});`;
        for (const look of ['fetch(0)', 'process.env', 'require("fs")']) {
          const answer = await run.own.publishFiles(id, '1.0.0', fileList(packageOf(`${code(look)}\n${look};`)));
          expect(answer, { status: 422, body: { code: 'invalid_package' } }, look);
        }
      },
    ),
    row(
      'middleware.systemPrompt receives the assembled prompt in systemPrompt and returns the replacement string.',
      async (run) =>
        expect(await run.hook('systemPrompt', { systemPrompt: 'change Be kind.', model: 'any' }), {
          status: 200,
          body: { action: 'continue', context: { systemPrompt: 'Be kind.' } },
        }),
    ),
    row('middleware.systemPrompt cannot cancel.', async (run) =>
      expect((await run.hook('systemPrompt', { systemPrompt: 'cancel no', model: 'any' })).body, {
        action: 'continue',
        context: { systemPrompt: 'cancel no' },
      }),
    ),
    row('compaction.summarize receives messages and focus, and returns one summary string.', async (run) => {
      const { body } = await compact(run, 'report');
      expect(body, { source: 'plugin', notice: null });
      expect(JSON.parse(body.summary), { texts: ['hello'] });
    }),
    row('It replaces the built-in summarizer entirely.', async (run) =>
      expect((await compact(run, 'change All of it.')).body, { source: 'plugin', summary: 'All of it.' }),
    ),
    row('A blank result falls back to the built-in summarizer and posts a transcript notice.', async (run) => {
      const { answer, transcript } = await fallsBack(run, 'blank');
      expect(answer.body, { source: 'builtin', summary: null, notice: /blank/ });
      expect(transcript.body.items, holding({ role: 'notice', text: /blank/ }));
    }),
    row('An oversized result falls back to the built-in summarizer and posts a transcript notice.', async (run) => {
      const { answer, transcript } = await fallsBack(run, 'oversized');
      expect(answer.body, { source: 'builtin', summary: null });
      expect(transcript.body.items, holding({ role: 'notice', data: { kind: 'compaction_fallback' } }));
    }),
    row(
      '13 further middleware hooks cover inbound and outbound messages, todos, notify scheduling, three SSH command hooks and session-clear.',
      async (run) => {
        const { slug } = await run.kit();
        const { body } = await run.own.get(`/marketplace/${slug}`);
        const further = body.discovered.middleware.filter(
          (name: string) => name.startsWith('middleware.') && name !== 'middleware.systemPrompt',
        );
        // Two more were added since: of tool calls and their results.
        ensure(further.length >= 13, `the deployment knows ${further.join(', ')}`);
      },
    ),
    row('tools.<name> appears in the agent’s tool list.', async (run) => {
      const { slug } = await run.kit();
      const { body } = await run.own.session('GET', `/sessions/${await run.session()}/tools`);
      expect(body.items, holding({ name: `${slug}__answer`, description: 'Returns the value that it is asked for' }));
    }),
    row('A tool has a JSON schema for its arguments.', async (run) =>
      expect(await run.callTool('answer', { kind: 7 }), {
        status: 422,
        body: { code: 'invalid_arguments', errors: [{ field: /kind/ }] },
      }),
    ),
    row('A tool’s handler answers the call.', async (run) =>
      expect(await run.tool('answer', { kind: 'text' }), 'as text'),
    ),
    row('host.log writes the plugin’s log lines.', async (run) => {
      expect(await run.writeLog('written', 'warn'), { level: 'warn' });
    }),
    row('channel.receive is the handler of a channel plugin for inbound webhook requests.', async (run) => {
      const { slug } = await run.kit();
      expect((await run.own.get(`/marketplace/${slug}`)).body.discovered, { channel: { receive: true } });
    }),
    row('The SDK globals middleware, compaction and host are ambient, with no imports or exports.', async (run) => {
      const names = ['middleware', 'compaction', 'host', 'events', 'tools', 'commands', 'providers', 'channel'];
      expect(await run.tool('types', { names }), Object.fromEntries(names.map((name) => [name, 'object'])));
    }),
    unchecked(
      'Authors apply for the verified tier; the application route is outside the REST interface.',
      'it is outside the REST interface',
    ),
    row('A verified tier shows the author’s identity on the plugin card.', async (run) => {
      const { slug } = await run.plain();
      const me = await run.own.need(run.own.get('/me'));
      expect((await run.own.get(`/marketplace/${slug}`)).body, {
        author: { name: me.name, verified: me.verified ?? false },
      });
    }),
    unchecked(
      'Everything available through the REST interface is also available in a console UI.',
      'needs a browser; the console’s own tests perform each operation there',
    ),
  ],
};
