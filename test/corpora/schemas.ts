/**
 * Schemas as parameters of tools. All are judged by the program that judges them in the process of a plugin, and some are
 * published, installed and called with each value: both ways say the same.
 */
import { fileList, packageOf } from '../../conform/packages.ts';
import type { Applied, SchemaFault, SchemaProgram } from '../../sandbox-child/schema-program.ts';
import '../../sandbox-child/schema-program.ts';
import { eventually } from '../runner/eventually.ts';
import { type Deployment, publishAndInstall } from './deployment.ts';
import type { SchemaCase } from './schema-cases.ts';

const { schemas: program } = globalThis as unknown as { readonly schemas: SchemaProgram };
/** Tools of one plugin: checking their schemas is part of the 5 seconds that loading may take. */
const TOOLS_MAX = 15;

export interface SchemaResult extends SchemaCase {
  /** Why a package with this schema is refused; null: it is not. */
  readonly refusal: string | null;
  /** Values that are treated otherwise than the suite says. */
  readonly differing: readonly string[];
}

/** The schema is that of one argument, and a resource of its own, so that `#` means the schema. */
function writeParameters({ schema }: SchemaCase): string {
  const value = typeof schema === 'boolean' ? schema : { $id: 'urn:test:case', ...Object(schema) };
  return JSON.stringify({ type: 'object', properties: { value }, required: ['value'] });
}

export function judgeSchema(one: SchemaCase): SchemaResult {
  const parameters = writeParameters(one);
  const fault: SchemaFault | null = JSON.parse(program.findFault(parameters));
  const differing = one.tests.filter(({ data, valid }) => {
    const { errors }: Applied = JSON.parse(program.apply(parameters, JSON.stringify({ value: data })));
    return fault === null && (errors.length === 0) !== valid;
  });
  return { ...one, refusal: fault?.message ?? null, differing: differing.map(({ description }) => description) };
}

/** Publishes, installs and calls. @returns what differs from the judgement, and answers of 500 and more */
export async function findContradictions(deployment: Deployment, judged: readonly SchemaResult[]): Promise<string[]> {
  const found: string[] = [];
  for (let at = 0; at < judged.length; at += TOOLS_MAX)
    found.push(...(await tryPlugin(deployment, `schemas-${at}`, judged.slice(at, at + TOOLS_MAX))));
  return found;
}

async function tryPlugin(deployment: Deployment, slug: string, judged: readonly SchemaResult[]): Promise<string[]> {
  const { ann, sessionId } = deployment;
  const { id } = await ann.need(ann.post('/plugins', { slug, displayName: slug }), 201);
  const refused = judged.filter(({ refusal }) => refusal !== null);
  const usable = judged.filter(({ refusal }) => refusal === null);
  const found: string[] = [];
  if (refused.length > 0) {
    const { status, body } = await ann.publishFiles(id, '0.0.1', fileList(packageOf(writeTools(refused))));
    const messages: string[] = (body.errors ?? []).map(({ message }: { message: string }) => message);
    const unnamed = refused.filter(({ refusal }) => !messages.some((message) => message.includes(refusal ?? '')));
    if (status !== 422) found.push(`${slug}: published with ${status}`);
    found.push(...unnamed.map(({ keyword, refusal }) => `${keyword}: not refused with “${refusal}”`));
  }
  await publishAndInstall(ann, id, packageOf(writeTools(usable)));
  // The supervisor hears of an installation a moment after the answer.
  await eventually(async () => {
    const { body } = await ann.session('GET', `/sessions/${sessionId}/tools`);
    return body.items.some(({ name }: { name: string }) => name === `${slug}__t0`);
  });
  for (const [at, one] of usable.entries()) found.push(...(await callTool(deployment, `${slug}__t${at}`, one)));
  return found;
}

const writeTools = (cases: readonly SchemaCase[]): string =>
  cases
    .map((one, at) => {
      const text = JSON.stringify(writeParameters(one));
      return `tools.t${at} = { description: 'Takes a value', parameters: JSON.parse(${text}), handler: () => 'taken' };\n`;
    })
    .join('');

async function callTool({ ann, sessionId }: Deployment, name: string, one: SchemaResult): Promise<string[]> {
  const found: string[] = [];
  for (const { description, data, valid } of one.tests) {
    const { status, body } = await ann.session('POST', `/sessions/${sessionId}/tools/${name}`, {
      arguments: { value: data },
    });
    const isTaken = valid !== one.differing.includes(description);
    const isAsJudged = isTaken ? status === 200 : body.code === 'invalid_arguments';
    if (!isAsJudged) found.push(`${one.keyword}, ${description}: ${status} ${body.code ?? ''}`);
  }
  return found;
}
