/** Renders an OpenAPI document as one page of plain HTML without scripts. */
import type { JsonSchema, OpenApiDocument, Operation, Parameter, Response } from './openapi.ts';

export const STYLE = `
:root { color-scheme: light dark; --line: #8886; --soft: #8882; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; }
pre { background: var(--soft); padding: .7rem; border-radius: .3rem; white-space: pre-wrap; }
details { border: 1px solid var(--line); border-radius: .3rem; margin: .4rem 0; padding: .3rem .7rem; }
summary { cursor: pointer; }
summary:focus-visible, a:focus-visible { outline: 3px solid Highlight; outline-offset: 2px; }
h3 { display: inline; font-size: 1rem; font-weight: 400; }
h3 code { font-weight: 700; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-top: 1px solid var(--line); }
nav ul { padding-left: 1.2rem; }
`;

const REFERENCE = '#/components/schemas/';

export function renderDocumentationPage(document: OpenApiDocument): string {
  const { info, servers, externalDocs, tags, components } = document;
  const schemas = Object.entries(components.schemas).sort(([a], [b]) => a.localeCompare(b));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(info.title)}</title>
<style>${STYLE}</style>
</head>
<body>
<header>
<h1>${escapeHtml(info.title)}</h1>
<p>${escapeHtml(info.description)} Addresses start with <code>${escapeHtml(servers[0]?.url ?? '')}</code>. Every request needs the header
<code>Authorization: Bearer &lt;token&gt;</code> unless its entry says otherwise. For programs: <a href="openapi.json">OpenAPI 3.1</a>.
${escapeHtml(externalDocs.description)}: <a href="${escapeHtml(externalDocs.url)}">Documentation</a>.</p>
<nav aria-label="Contents"><ul>
${tags.map(({ name }) => `<li><a href="#group-${escapeHtml(name)}">${escapeHtml(name)}</a></li>`).join('\n')}
<li><a href="#schemas">Schemas</a></li>
</ul></nav>
</header>
<main>
${tags.map((tag) => renderGroup(document, tag.name, tag.description)).join('\n')}
<h2 id="schemas">Schemas</h2>
${schemas.map(([name, schema]) => renderSchema(name, schema)).join('\n')}
</main>
</body>
</html>
`;
}

function renderGroup({ paths }: OpenApiDocument, name: string, description: string): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) =>
      operation.tags.includes(name) ? [renderOperation(method, path, operation)] : [],
    ),
  );
  return `<section aria-labelledby="group-${escapeHtml(name)}">
<h2 id="group-${escapeHtml(name)}">${escapeHtml(name)}</h2>
<p>${escapeHtml(description)}</p>
${operations.join('\n')}
</section>`;
}

function renderOperation(method: string, path: string, operation: Operation): string {
  const { operationId, summary, description, parameters = [], requestBody, responses, security } = operation;
  return `<details id="${escapeHtml(operationId)}">
<summary><h3><code>${method.toUpperCase()} ${escapeHtml(path)}</code> ${escapeHtml(summary)}</h3></summary>
${description === undefined ? '' : `<p>${escapeHtml(description)}</p>`}
${security ? '<p>Needs no token.</p>' : ''}
${parameters.length > 0 ? renderParameters(parameters) : ''}
${requestBody ? `<h4>Body${requestBody.required ? '' : ' (optional)'}</h4>\n${renderContent(requestBody.content)}` : ''}
<h4>Answers</h4>
<table><thead><tr><th scope="col">Status</th><th scope="col">Answer</th></tr></thead><tbody>
${Object.entries(responses).map(renderAnswer).join('\n')}
</tbody></table>
</details>`;
}

function renderParameters(parameters: readonly Parameter[]): string {
  const rows = parameters.map(
    (one) =>
      `<tr><td><code>${escapeHtml(one.name)}</code></td><td>${one.in}${one.required ? ', required' : ''}</td><td>${renderType(one.schema)}</td></tr>`,
  );
  return `<h4>Parameters</h4>
<table><thead><tr><th scope="col">Name</th><th scope="col">In</th><th scope="col">Value</th></tr></thead><tbody>
${rows.join('\n')}
</tbody></table>`;
}

function renderAnswer([status, { description, content }]: [string, Response]): string {
  const isProblem = Number(status) >= 400;
  const body = content && !isProblem ? renderContent(content) : '';
  return `<tr><td>${status}</td><td>${escapeHtml(description)}${body}</td></tr>`;
}

const renderContent = (content: NonNullable<Response['content']>): string =>
  Object.entries(content)
    .map(([type, { schema }]) => `<p><code>${escapeHtml(type)}</code> ${renderType(schema)}</p>`)
    .join('');

function renderSchema(name: string, schema: JsonSchema): string {
  return `<details><summary><h3><code>${escapeHtml(name)}</code> ${escapeHtml(schema.description ?? '')}</h3></summary>
<pre id="schema-${escapeHtml(name)}">${linkReferences(schema)}</pre></details>`;
}

/** References become links. */
function renderType(schema: JsonSchema): string {
  const text = JSON.stringify(schema);
  return text.length <= 80 ? `<code>${linkReferences(schema, 0)}</code>` : `<pre>${linkReferences(schema)}</pre>`;
}

const linkReferences = (schema: JsonSchema, indent = 2): string =>
  escapeHtml(JSON.stringify(schema, null, indent)).replaceAll(
    new RegExp(`&quot;${REFERENCE}(\\w+)&quot;`, 'g'),
    (_, name: string) => `<a href="#schema-${name}">${name}</a>`,
  );

const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
