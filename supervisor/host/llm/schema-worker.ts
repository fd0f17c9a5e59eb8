/**
 * Runs in a thread: validates a model's answer against a plugin's schema. Both are untrusted, so the thread may be
 * killed.
 */
import { Ajv2020 } from 'ajv/dist/2020.js';

export interface SchemaTask {
  readonly schema: Readonly<Record<string, unknown>>;
  /** Absent: only the schema is checked. */
  readonly answer?: { readonly value: unknown };
}
export type SchemaVerdict =
  | { readonly ok: true }
  | { readonly ok: false; readonly fault: 'schema' | 'answer'; readonly why: string };

const WHY_MAX_CHARS = 300;

/** Validates one answer. Without a loader, a remote `$ref` is an error. */
export function checkAnswer({ schema, answer }: SchemaTask): SchemaVerdict {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, logger: false, addUsedSchema: false });
  try {
    const validate = ajv.compile(schema);
    if (!answer || validate(answer.value)) return { ok: true };
    const [error] = validate.errors ?? [];
    const why =
      `${(error?.instancePath ?? '').slice(1).replaceAll('/', '.')} ${error?.message ?? 'is not valid'}`.trim();
    return { ok: false, fault: 'answer', why: why.slice(0, WHY_MAX_CHARS) };
  } catch (error) {
    return { ok: false, fault: 'schema', why: (error as Error).message.slice(0, WHY_MAX_CHARS) };
  }
}
