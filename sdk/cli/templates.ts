/** The templates of `bulkhead init`. A new package of each passes `bulkhead check`. */

export interface Template {
  readonly name: string;
  /** One line for the list of templates. */
  readonly doc: string;
  /** The lines of the readme's frontmatter after name and description. */
  readonly frontmatter: string;
  readonly description: string;
  readonly code: string;
  /** The commands that follow once the plugin is installed. Default: none. */
  readonly whenInstalled?: (slug: string) => string;
  /** Further files, by path. */
  readonly files?: Readonly<Record<string, string>>;
}

const prompt: Template = {
  name: 'prompt',
  doc: 'adds to the system prompt before every model call',
  description: 'Tells every agent how to write.',
  frontmatter: `settings:
  style:
    label: Style
    default: Answer in one short sentence.
`,
  code: `// Runs before every model call. The returned text replaces the system prompt. To change nothing, return nothing.
middleware.systemPrompt = (ctx) => {
  const { style } = ctx.settings;
  // It may be there already: a plugin that a user requires is called again after another plugin changed the prompt.
  if (!style || ctx.systemPrompt.includes(style)) return;
  return \`\${ctx.systemPrompt}\\n\\n\${style}\`;
};
`,
};

const guard: Template = {
  name: 'guard',
  doc: 'cancels or changes messages to agents',
  description: 'Cancels messages with a forbidden word.',
  frontmatter: `settings:
  forbidden:
    label: Forbidden word
    default: password
`,
  code: `// Runs on every message to an agent. Return only the fields to change. ctx.cancel stops the message and shows the reason.
middleware.inboundMessage = (ctx) => {
  const { forbidden } = ctx.settings;
  if (forbidden && ctx.message.text.includes(forbidden)) ctx.cancel(\`The word “\${forbidden}” is not allowed here.\`);
};
`,
};

const tool: Template = {
  name: 'tool',
  doc: 'adds a tool for agents',
  description: 'Counts the words of a text.',
  frontmatter: '',
  code: `tools.count = {
  description: 'Counts the words of a text.',
  // JSON Schema. Arguments are validated before the handler runs.
  parameters: {
    type: 'object',
    properties: { text: { type: 'string', description: 'The text whose words are counted' } },
    required: ['text'],
    additionalProperties: false,
  },
  handler: ({ text }: { text: string }) => {
    const words = text.split(/\\s+/).filter((word) => word !== '').length;
    host.log('counted', { words });
    return \`\${words} words\`;
  },
};
`,
};

const channel: Template = {
  name: 'channel',
  doc: 'turns a vendor’s webhooks into messages and sends replies',
  description: 'Receives messages from a vendor’s webhook and sends replies.',
  whenInstalled: (slug) =>
    `bulkhead channels ${slug} connect <name>, which prints the address that you enter at the vendor`,
  frontmatter: `capabilities: ["host.http:api.example.com"]
secrets:
  webhookSecret:
    label: Webhook secret
    required: true
    use: [webhooks]
  apiToken:
    label: API token
    required: true
    use: [http:api.example.com]
`,
  code: `// Runs after the vendor has got its response. If it throws, the host calls it again later with the same request.
channel.receive = async (request) => {
  // host.secrets.get returns a handle: this code never sees the secret. \`use\` in readme.md says what the handle is for.
  const secret = (await host.secrets.get('webhookSecret')) ?? '';
  if (!(await webhooks.verifyStandard(request, secret))) {
    host.log.warn('dropped a request with a wrong signature', { deliveryId: request.deliveryId });
    return;
  }
  const { chat, from, text } = JSON.parse(request.bodyText) as { chat: string; from: string; text: string };
  return { messages: [{ conversationKey: chat, from, text }] };
};

channel.send = async ({ conversationKey, text, deliveryId }) => {
  const answer = await host.http.fetch('https://api.example.com/messages', {
    method: 'POST',
    headers: {
      authorization: \`Bearer \${await host.secrets.get('apiToken')}\`,
      'content-type': 'application/json',
      // The same in every attempt, so that a vendor with idempotency keys sends the reply once.
      'idempotency-key': deliveryId,
    },
    body: JSON.stringify({ chat: conversationKey, text }),
  });
  // If the handler throws, the host calls it again later with the same reply.
  if (answer.status >= 300) throw new Error(\`The vendor responded with status \${answer.status}.\`);
};
`,
};

const provider: Template = {
  name: 'provider',
  doc: 'adds models for agents and plugins',
  description: 'Adds the models of a vendor.',
  frontmatter: `capabilities: ["host.http:api.example.com"]
secrets:
  apiKey:
    label: API key
    required: true
    use: [http:api.example.com]
`,
  code: `providers.acme = {
  models: [{ id: 'small', name: 'Acme Small', contextWindow: 32_000 }],

  async chat({ model = 'small', system, messages }) {
    const answer = await host.http.fetch('https://api.example.com/v1/answers', {
      method: 'POST',
      headers: { authorization: \`Bearer \${await host.secrets.get('apiKey')}\`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, system, messages }),
    });
    if (answer.status !== 200) throw new Error(\`Acme responded with status \${answer.status}.\`);
    const { text, tokens } = JSON.parse(answer.bodyText) as { text: string; tokens: { in: number; out: number } };
    return { text, model, usage: { inputTokens: tokens.in, outputTokens: tokens.out } };
  },
};
`,
};

const skillPack: Template = {
  name: 'skill-pack',
  doc: 'adds skills: instructions for agents, without code',
  description: 'Teaches agents how to write release notes.',
  frontmatter: '',
  code: '// Skills need no code, but every package needs an index.ts.\n',
  files: {
    'skills/release-notes/SKILL.md': `---
name: release-notes
description: Writes release notes. Use it when a user asks what is new in a version.
---

# Release notes

1. Ask for the version and its changes if they are missing.
2. Group the changes under Added, Changed and Fixed. Omit changes that users do not notice.
3. Write one sentence per change, in the present tense.
`,
  },
};

export const templates: readonly Template[] = [prompt, guard, tool, channel, provider, skillPack];

/** Returns the files of a new package by path. */
export function renderTemplate(template: Template, name: string, slug: string): Record<string, string> {
  const quoted = JSON.stringify(name);
  return {
    'readme.md': `---
name: ${quoted}
description: ${template.description}
${template.frontmatter}---

# ${name}

${template.description}
`,
    'index.ts': template.code,
    // Tests run in Node, whose types contradict the globals of plugins. Naming `exclude` replaces TypeScript's own, which is node_modules.
    'tsconfig.json': `{
  "extends": "@bulkhead/sdk/tsconfig.plugin.json",
  "include": ["**/*.ts"],
  "exclude": ["node_modules", "**/*.test.ts"]
}
`,
    '.gitignore': 'node_modules/\n',
    'package.json': `${JSON.stringify({ private: true, type: 'module', bulkhead: { slug } }, null, 2)}\n`,
    ...template.files,
  };
}
