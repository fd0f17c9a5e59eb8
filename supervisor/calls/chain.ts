/**
 * Chain folding as pure functions: how one link's result changes the context, when the chain ends, and what its trace
 * contains.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { limits } from '../../sdk/contract/limits.ts';
import { type HookName, hooks } from '../../sdk/contract/protocol.ts';
import type { HookRow } from '../../sdk/contract/rows.ts';

/**
 * Outcome of one link. `skipped_*`: the link failed and the chain went on. `vetoed_*`: the link failed, and the hook's
 * rule is that a failing link cancels the operation.
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
interface Link {
  readonly installationId: string;
  readonly slug: string;
}
interface TraceStep extends Link {
  readonly ms: number;
  readonly outcome: LinkOutcome;
  /** Why the link was not called, in the host's words. Set for the outcomes `*_unavailable` only. */
  readonly reason?: string;
}
/** Result of calling a plugin's handler. `unavailable`: it was not called (not started, too many calls, refused). */
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
  /** What to write to the plugin's log; null when the link succeeded. */
  readonly fault: string | null;
}

/** A chain before its first link. */
export const startChain = (context: Fields): ChainState => ({ context, trace: [], cancelled: null });

/** Deadline of a link that starts now, milliseconds since the epoch. */
export const linkDeadline = (hook: HookName, chainDeadline: number, now: number): number =>
  Math.min(now + hooks[hook].budgetMs, chainDeadline);

/** Deadline of a chain that starts now. Compaction calls one link only and gives it the link's whole budget. */
export const chainDeadline = (hook: HookName, now: number): number =>
  now + Math.max(limits.chainBudgetMs, hooks[hook].budgetMs);

/** Applies one link's result to the chain. */
export function foldLink(hook: HookName, state: ChainState, link: Link, result: LinkResult, ms: number): Fold {
  const row: HookRow = hooks[hook];
  const reason = result.kind === 'unavailable' ? { reason: result.message } : {};
  const appendStep = (outcome: LinkOutcome): readonly TraceStep[] => [
    ...state.trace,
    { ...link, ms, outcome, ...reason },
  ];
  if (result.kind === 'answered') {
    const applied = applyAnswer(hook, state.context, result.answer);
    if (applied.ok)
      return {
        state: { ...state, context: applied.context, trace: appendStep(applied.changed ? 'changed' : 'unchanged') },
        fault: null,
      };
    return failLink(row, state, link, 'error', applied.message, appendStep);
  }
  if (result.kind === 'cancelled') {
    if (!row.cancellable) return failLink(row, state, link, 'error', `${hook} cannot cancel`, appendStep);
    return {
      state: { ...state, trace: appendStep('cancelled'), cancelled: { reason: result.reason, by: link } },
      fault: null,
    };
  }
  return failLink(row, state, link, result.kind, result.message, appendStep);
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
  const reason = `${link.slug} failed, so the operation was stopped`;
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
  if (!checked.success) return { ok: false, message: `${hook} returned ${describeIssue(checked.error)}` };
  const changed = context[answers.field] !== checked.data;
  return { ok: true, context: changed ? { ...context, [answers.field]: checked.data } : context, changed };
}

function applyPatch(hook: HookName, context: Fields, answer: unknown): Applied {
  if (!isFields(answer)) return { ok: false, message: `${hook} must return an object or nothing` };
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
    : { ok: false, message: `% is ${describeIssue(checked.error)}` };
}

/** Merges one level deep: of `message`, the fields listed as `message.x`. Other fields may be returned only unchanged. */
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
    if (!checked.success) return { ok: false, message: `%.${field} is ${describeIssue(checked.error)}` };
    value[field] = checked.data;
  }
  return { ok: true, value };
}

const isFields = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const describeIssue = (error: z.ZodError): string => error.issues[0]?.message ?? 'not valid';

/** The schema of each patchable path, so that only the fields a link changes are validated. */
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
