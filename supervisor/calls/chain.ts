/**
 * Chain folding, as pure functions: what one link's result does to the context, when the chain ends, and what the trace
 * says. No clock, no child, no database.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { limits } from '../../sdk/contract/limits.ts';
import { type HookName, hooks } from '../../sdk/contract/protocol.ts';
import type { HookRow } from '../../sdk/contract/rows.ts';

/**
 * What happened to one link. `skipped_*`: the chain went on without it; `vetoed_*`: the same, but the hook's rule is that
 * a link that cannot be asked stops the operation.
 */
export const linkOutcomes = [
  'changed',
  'unchanged',
  'cancelled',
  'skipped_error',
  'skipped_timeout',
  'skipped_unavailable',
  'vetoed_error',
  'vetoed_timeout',
  'vetoed_unavailable',
] as const;
export type LinkOutcome = (typeof linkOutcomes)[number];

/** One installation in a chain. */
export interface Link {
  readonly installationId: string;
  readonly slug: string;
}
export interface TraceStep extends Link {
  readonly ms: number;
  readonly outcome: LinkOutcome;
  /** Why it could not be asked, in the host's own words; with the outcomes `*_unavailable` only. */
  readonly reason?: string;
}
/** How a call of a child ended. `unavailable`: it could not be asked (not started, full, refused). */
export type LinkResult =
  | { readonly kind: 'answered'; readonly answer: unknown }
  | { readonly kind: 'cancelled'; readonly reason: string }
  | {
      readonly kind: 'error' | 'timeout' | 'unavailable';
      readonly message: string;
      readonly stack?: string;
      readonly interrupted?: true;
    };

export type Fields = Readonly<Record<string, unknown>>;
export interface ChainState {
  readonly context: Fields;
  readonly trace: readonly TraceStep[];
  readonly cancelled: { readonly reason: string; readonly by: Link } | null;
}
export interface Fold {
  readonly state: ChainState;
  /** What the author should read in the plugin's log; null when all went well. */
  readonly fault: string | null;
}

/** A chain before its first link. */
export const startChain = (context: Fields): ChainState => ({ context, trace: [], cancelled: null });

/** When a link that starts now must have answered, milliseconds since the epoch. */
export const linkDeadline = (hook: HookName, chainDeadline: number, now: number): number =>
  Math.min(now + hooks[hook].budgetMs, chainDeadline);

/** When a chain that starts now must have ended. Compaction asks one link only, and gives it that link's whole budget. */
export const chainDeadline = (hook: HookName, now: number): number =>
  now + Math.max(limits.chainBudgetMs, hooks[hook].budgetMs);

/** Takes one link's result into the chain. */
export function foldLink(hook: HookName, state: ChainState, link: Link, result: LinkResult, ms: number): Fold {
  const row: HookRow = hooks[hook];
  const reason = result.kind === 'unavailable' ? { reason: result.message } : {};
  const step = (outcome: LinkOutcome): readonly TraceStep[] => [...state.trace, { ...link, ms, outcome, ...reason }];
  if (result.kind === 'answered') {
    const applied = applyAnswer(hook, state.context, result.answer);
    if (applied.ok)
      return {
        state: { ...state, context: applied.context, trace: step(applied.changed ? 'changed' : 'unchanged') },
        fault: null,
      };
    return failLink(row, state, link, 'error', applied.message, step);
  }
  if (result.kind === 'cancelled') {
    if (!row.cancellable) return failLink(row, state, link, 'error', `${hook} cannot cancel`, step);
    return {
      state: { ...state, trace: step('cancelled'), cancelled: { reason: result.reason, by: link } },
      fault: null,
    };
  }
  return failLink(row, state, link, result.kind, result.message, step);
}

function failLink(
  row: HookRow,
  state: ChainState,
  link: Link,
  kind: 'error' | 'timeout' | 'unavailable',
  message: string,
  step: (outcome: LinkOutcome) => readonly TraceStep[],
): Fold {
  if (row.onFailure !== 'cancel') return { state: { ...state, trace: step(`skipped_${kind}`) }, fault: message };
  const reason = `${link.slug} could not check it, so it is stopped`;
  return { state: { ...state, trace: step(`vetoed_${kind}`), cancelled: { reason, by: link } }, fault: message };
}

type Applied =
  | { readonly ok: true; readonly context: Fields; readonly changed: boolean }
  | { readonly ok: false; readonly message: string };

function applyAnswer(hook: HookName, context: Fields, answer: unknown): Applied {
  if (answer === undefined) return { ok: true, context, changed: false };
  const { answers }: HookRow = hooks[hook];
  if (answers.kind === 'patch') return applyPatch(hook, context, answer);
  const checked = answers.schema.safeParse(answer);
  if (!checked.success) return { ok: false, message: `${hook} answered with ${describe(checked.error)}` };
  const changed = context[answers.field] !== checked.data;
  return { ok: true, context: changed ? { ...context, [answers.field]: checked.data } : context, changed };
}

function applyPatch(hook: HookName, context: Fields, answer: unknown): Applied {
  if (!isFields(answer)) return { ok: false, message: `${hook} must answer with an object or nothing` };
  const patchable = patchablePaths[hook];
  let next: Fields = context;
  for (const [key, value] of Object.entries(answer)) {
    if (value === undefined) continue;
    const whole = patchable.get(key);
    const present = Object.hasOwn(next, key) ? next[key] : undefined;
    const merged = whole ? checkValue(whole, value) : mergeGroup(patchable, key, present, value);
    if (!merged.ok) return { ok: false, message: `${hook}: ${merged.message.replace('%', key)}` };
    if (!isDeepStrictEqual(merged.value, present)) next = { ...next, [key]: merged.value };
  }
  return { ok: true, context: next, changed: next !== context };
}

type Merged = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly message: string };

function checkValue(schema: z.ZodType, value: unknown): Merged {
  const checked = schema.safeParse(value);
  return checked.success
    ? { ok: true, value: checked.data }
    : { ok: false, message: `% is ${describe(checked.error)}` };
}

/** One level deep: of `message`, the fields named `message.x`. Others may be repeated as they are, never changed. */
function mergeGroup(patchable: ReadonlyMap<string, z.ZodType>, key: string, present: unknown, given: unknown): Merged {
  if (isDeepStrictEqual(present, given)) return { ok: true, value: present };
  if (!isFields(present) || !isFields(given)) return { ok: false, message: '% cannot be changed' };
  const value: Record<string, unknown> = { ...present };
  for (const [field, wanted] of Object.entries(given)) {
    const schema = patchable.get(`${key}.${field}`);
    if (!schema) {
      if (Object.hasOwn(present, field) && isDeepStrictEqual(present[field], wanted)) continue;
      return { ok: false, message: `%.${field} cannot be changed` };
    }
    if (wanted === undefined) continue;
    const checked = schema.safeParse(wanted);
    if (!checked.success) return { ok: false, message: `%.${field} is ${describe(checked.error)}` };
    value[field] = checked.data;
  }
  return { ok: true, value };
}

const isFields = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const describe = (error: z.ZodError): string => error.issues[0]?.message ?? 'not valid';

/** The schema of each patchable path, looked up once: a link then checks only what it changes. */
const patchablePaths = Object.fromEntries(
  Object.entries(hooks).map(([name, { answers, context }]: [string, HookRow]) => {
    const paths = answers.kind === 'patch' ? answers.patchable : [];
    return [name, new Map(paths.map((path) => [path, schemaAt(context, path)]))];
  }),
) as unknown as Readonly<Record<HookName, ReadonlyMap<string, z.ZodType>>>;

function schemaAt(context: z.ZodObject, path: string): z.ZodType {
  let schema: unknown = context;
  for (const key of path.split('.')) schema = schema instanceof z.ZodObject ? schema.shape[key] : undefined;
  if (!(schema instanceof z.ZodType)) throw new Error(`protocol: ${path} is patchable but not in its context`);
  return schema;
}
