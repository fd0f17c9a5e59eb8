/** The page of the session API: it says all that a request needs, made from the OpenAPI document. */
import t from 'tap';
import { sessionApiPage } from '../../docs/generate/session-api-page.ts';

const page = await sessionApiPage();
const operations = page.split('\n### ').filter((section) => /^(GET|POST|PUT|PATCH|DELETE) \//.test(section));
const findOperation = (name: string) => operations.find((section) => section.startsWith(`${name}\n`)) ?? '';

t.test('every operation has its answers, and a body is a table or a schema of the page', async (t) => {
  t.ok(operations.length > 60);
  for (const section of operations) t.match(section, /^\S+ \S+\n.*\n\*\*\d{3}\*\* [^\n]*Problems: /s);
  for (const [, name = ''] of page.matchAll(/^\*\*Body\*\* (\w+)\.$/gm)) t.match(page, `\n### ${name}\n`);
  t.match(findOperation('POST /v1/chat/completions'), '**Body** ChatRequestInput.');
  t.match(findOperation('POST /sessions'), '| Body | Type | |');
});

t.test('a field has its type, one default, and its limits', async (t) => {
  const opening = findOperation('POST /sessions/{sessionId}/turns');
  t.match(opening, /^\| `prompt\.compactAfter` \| integer \| .* Default: never\. From 1 to 900\. Optional\. \|$/m);
  t.match(opening, /^\| `leaseSeconds` \| integer \| .* Default: `120`\. From 1 to 3600\. Optional\. \|$/m);
  t.match(
    opening,
    /^\| `bulkhead-runtime` \| string \| The name of the runtime .* At most 200 characters\. Optional\. \|$/m,
  );
  t.notMatch(page, /Default: [^|]*Default: /);
  t.match(page, /^\| `message\.judgement\.asked` \| integer \| Number of plugins that were asked\. \|$/m);
  t.match(page, /^\| `clearedAt` \| date-time or null \|/m);
  t.match(page, 'list of {type: "text", text} or {type: "image", data, mimeType} or {type: "json", json}');
});
