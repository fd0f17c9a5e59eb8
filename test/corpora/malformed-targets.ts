/** Malformed HTTP at five targets: both ports, both operations ports and a webhook address. */
import { exchange, listMalformed, type Target } from '../service/malformed-requests.ts';
import type { Deployment } from './deployment.ts';

interface NamedTarget extends Target {
  readonly name: string;
  readonly port: number;
}

export function listTargets({ service, webhookPath }: Deployment): readonly NamedTarget[] {
  const { env, token } = service;
  const headers = [`Authorization: Bearer ${token}`];
  const operations = { get: '/healthz', postTo: '/healthz', headers: [] };
  return [
    { name: 'API', port: Number(env.PORT), get: '/api/me', postTo: '/api/plugins', headers },
    { name: 'session API', port: Number(env.SUPERVISOR_PORT), get: '/sessions', postTo: '/sessions', headers },
    { name: 'operations, API', port: Number(env.API_OPS_PORT), ...operations },
    { name: 'operations, supervisor', port: Number(env.SUPERVISOR_OPS_PORT), ...operations },
    { name: 'webhook', port: Number(env.PORT), get: webhookPath, postTo: webhookPath, headers: [] },
  ];
}

export interface MalformedResult {
  readonly name: string;
  /** The status that a route of ours answers. */
  readonly expected: number;
  /** By target; 0: no answer. */
  readonly statuses: readonly number[];
  /** Answers that are bare, or no problem. */
  readonly faults: readonly string[];
}

export async function sendMalformed(targets: readonly NamedTarget[]): Promise<readonly MalformedResult[]> {
  const byTarget = await Promise.all(targets.map(sendAll));
  const [first = []] = byTarget;
  return first.map(({ name, expected }, at) => {
    const answers = byTarget.map((results) => results[at] as SentRequest);
    const faults = answers.flatMap(({ fault }, target) => (fault ? [`${targets[target]?.name}: ${fault}`] : []));
    return { name, expected, statuses: answers.map(({ status }) => status), faults };
  });
}

interface SentRequest {
  readonly name: string;
  readonly expected: number;
  readonly status: number;
  readonly fault: string | null;
}

async function sendAll(target: NamedTarget): Promise<readonly SentRequest[]> {
  const sent: SentRequest[] = [];
  for (const [name, [bytes, expected]] of Object.entries(listMalformed(target))) {
    const answer = await exchange(target.port, bytes);
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1] ?? 0);
    sent.push({ name, expected, status, fault: findFault(answer, status) });
  }
  return sent;
}

function findFault(answer: string, status: number): string | null {
  if (status === 0) return `no answer: ${answer.slice(0, 100)}`;
  if (status >= 500) return `${status}`;
  if (status < 400) return null;
  const [head = '', body = ''] = answer.split('\r\n\r\n', 2);
  if (!/content-type: application\/problem\+json/i.test(head)) return `${status}, not a problem`;
  const { detail, code, requestId } = JSON.parse(body);
  return [detail, code, requestId].every((text) => typeof text === 'string')
    ? null
    : `${status}, an incomplete problem`;
}

/** Why a target answers a request with another status than a route with a body of JSON does. */
const REASONS: Readonly<Record<string, string>> = {
  'a method without a route': 'A webhook address accepts every method except CONNECT.',
  'a path with an invalid escape': 'No channel has this address: it is compared as it is, and decodes to nothing.',
  'a path in invalid UTF-8': 'The same.',
  'a body that ends early': 'Operations ports accept no POST, and answer before the body.',
  'a body without a type': 'Operations ports accept no POST. A webhook address accepts bytes of every type.',
  'a malformed type': 'A webhook address accepts bytes of every type.',
};
/** @returns null: there is no reason */
export const explainStatus = (name: string): string | null => REASONS[name] ?? null;
