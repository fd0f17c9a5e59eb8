/**
 * Pure functions that apply the result of each link to the state of a hook's chain: how it changes the context, whether it ends the
 * chain, and what the trace contains.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { describeCancel } from '../../sdk/contract/errors.ts';
import { describeFieldFault, locateFault } from '../../sdk/contract/field-faults.ts';
import { getOwn } from '../../sdk/contract/get-own.ts';
import { isRecord } from '../../sdk/contract/is-record.ts';
import { SECOND } from '../../sdk/contract/limits.ts';
import { REASON_MAX_CHARS } from '../../sdk/contract/payloads.ts';
import { type ArgumentFault, type HookName, hookBase, hooks } from '../../sdk/contract/protocol.ts';
import type { HookRow } from '../../sdk/contract/rows.ts';
import { findNearName } from '../../service/text/near-name.ts';

/**
 * Outcome of one link. `skipped_*`: the link did not run or failed, and the chain went on. `vetoed_*`: the same, and the
 * operation was cancelled, because the installation is required or because the hook's rule is to cancel then.
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
type Link = Pick<InstalledPlugin, 'installationId' | 'slug' | 'displayName' | 'required'>;
interface TraceStep extends Omit<Link, 'displayName'> {
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
      /** Why the call timed out, in the host's words, if its own handler was not the cause. */
      readonly cause?: string | undefined;
      /** An instruction for the user, if a retry does not help. */
      readonly advice?: string;
      /** Set if the handler threw: `message` is then the plugin's own text. */
      readonly stack?: string;
      /** Set if the handler was cut off, or lost its grants while it ran, through no fault of the plugin. */
      readonly interrupted?: true;
      /** Set if `callsInFlight` calls of the child ran, and `callsWaiting` waited or this one did until its deadline. It may succeed later. */
      readonly overLimit?: true;
      /**
       * Set if the handler did not run, because the plugin did not run or had too many calls, or the caller aborted the call before it
       * was sent.
       */
      readonly isUnsent?: true;
      /** Set if a link was not called, because earlier ones had used up the time of the chain. */
      readonly isOutOfTime?: true;
      /** Set if a tool's handler did not run, because the arguments do not fit its schema. */
      readonly invalidArguments?: readonly ArgumentFault[];
    };

export type Fields = Readonly<Record<string, unknown>>;
export interface Cancel {
  readonly reason: string;
  readonly by: Link;
  /** `plugin`: the handler cancelled. `failure`: the link did not run or failed, and so the operation may not go ahead. */
  readonly cause: 'plugin' | 'failure';
  /**
   * Set after a failure of which the handler is not the cause. `unavailable`: the plugin could not be called. `interrupted`: the handler
   * was cut off from outside the plugin.
   */
  readonly obstacle?: 'unavailable' | 'interrupted' | undefined;
}
export interface ChainState {
  readonly context: Fields;
  readonly trace: readonly TraceStep[];
  readonly cancelled: Cancel | null;
  /** The required plugins when the chain began, as `digestGuards` returns them. */
  readonly guards: string;
}
export interface Fold {
  readonly state: ChainState;
  /** The line for the plugin's log. Null when the link succeeded. */
  readonly fault: string | null;
}

/** The sentence for users and agents about a cancelled operation. */
export const formatCancel = ({ by, reason, cause }: Cancel): string =>
  describeCancel(by.displayName, reason, cause === 'plugin');

/** A chain before its first link. */
export const startChain = (context: Fields, guards = ''): ChainState => ({
  context,
  trace: [],
  cancelled: null,
  guards,
});

/** Applies one link's result to the chain. */
export function foldLink(hook: HookName, state: ChainState, link: Link, result: LinkResult, ms: number): Fold {
  const row: HookRow = hooks[hook];
  if (result.kind === 'answered') {
    const applied = applyAnswer(hook, state.context, result.answer);
    if (!applied.ok) return failLink(hook, state, link, { kind: 'malformed', message: applied.message }, ms);
    const trace = appendStep(state, link, applied.changed ? 'changed' : 'unchanged', ms);
    return { state: { ...state, context: applied.context, trace }, fault: null };
  }
  if (result.kind !== 'cancelled') return failLink(hook, state, link, result, ms);
  if (!row.cancellable) return failLink(hook, state, link, { kind: 'malformed', message: `${hook} cannot cancel` }, ms);
  const cancelled = { reason: result.reason, by: link, cause: 'plugin' } as const;
  return { state: { ...state, trace: appendStep(state, link, 'cancelled', ms), cancelled }, fault: null };
}

export const appendStep = (
  state: ChainState,
  { installationId, slug, required }: Link,
  outcome: LinkOutcome,
  ms: number,
  reason?: string,
): readonly TraceStep[] => [
  ...state.trace,
  { installationId, slug, required, ms, outcome, ...(reason === undefined ? {} : { reason }) },
];

/**
 * Whether other links have changed the context since this link was called. Changes by later links count only if those are not
 * required: two required links that both change the context would otherwise be called again for ever.
 *
 * @param earlier the installations that are before it in the chain
 */
export function isOutdated({ trace }: ChainState, installationId: string, earlier: ReadonlySet<string>): boolean {
  const last = trace.findLastIndex((step) => step.installationId === installationId);
  return trace
    .slice(last + 1)
    .some(({ outcome, required, installationId: by }) => outcome === 'changed' && (!required || earlier.has(by)));
}

/** A link that did not run or failed. `malformed`: the handler returned what the hook does not allow. */
type Failure =
  | Exclude<LinkResult, { kind: 'answered' | 'cancelled' }>
  | { readonly kind: 'malformed'; readonly message: string };

function failLink(hook: HookName, state: ChainState, link: Link, failure: Failure, ms: number): Fold {
  const row: HookRow = hooks[hook];
  const kind = failure.kind === 'malformed' ? 'error' : failure.kind;
  const why = kind === 'unavailable' ? failure.message : undefined;
  const fault = failure.message;
  if (!link.required && row.onFailure !== 'cancel')
    return { state: { ...state, trace: appendStep(state, link, `skipped_${kind}`, ms, why) }, fault };
  const reason = link.required
    ? describeRequiredFailure(link, describeFailure(hook, failure, ms))
    : `${link.displayName} failed, so the operation was stopped`;
  const trace = appendStep(state, link, `vetoed_${kind}`, ms, why);
  const cancelled = { reason, by: link, cause: 'failure', obstacle: findObstacle(failure) } as const;
  return { state: { ...state, trace, cancelled }, fault };
}

/** A link that was left without time could be called: the slow links before it are at fault, and will be at each repetition. */
function findObstacle(failure: Failure): Cancel['obstacle'] {
  if (failure.kind === 'unavailable') return failure.isOutOfTime ? undefined : 'unavailable';
  return failure.kind !== 'malformed' && failure.interrupted ? 'interrupted' : undefined;
}

/** The text for users about a failure. A plugin's own error text stays in its log. */
interface FailureText {
  /** The failure, as a phrase that follows the plugin's name. */
  readonly what: string;
  readonly cause?: string | undefined;
  readonly advice?: string | undefined;
}

/** Hooks on what a tool or a command has done: an agent that reads “Try again” would have it done twice. */
const HOOKS_ON_RESULTS: ReadonlySet<HookName> = new Set(['middleware.toolResult', 'middleware.sshCommandOutput']);
const ADVICE_ON_RESULT = 'See the plugin’s log, or pause the plugin to continue without it.';

function describeFailure(hook: HookName, failure: Failure, ms: number): FailureText {
  const advice = HOOKS_ON_RESULTS.has(hook) ? ADVICE_ON_RESULT : undefined;
  if (failure.kind === 'malformed') return { what: 'returned a result that this hook does not allow', advice };
  // A chain that runs out of time gives its last link less than the row's budget.
  if (failure.kind === 'timeout') {
    const seconds = formatSeconds(Math.min(hooks[hook].budgetMs, ms));
    return { what: `did not answer within ${seconds}`, cause: failure.cause, advice };
  }
  if (failure.kind === 'unavailable')
    return { what: 'could not run', cause: failure.message, advice: failure.advice ?? advice };
  return failure.stack === undefined
    ? { what: 'failed', cause: failure.message, advice }
    : { what: 'failed with an error', advice };
}

/** Maximum length of the cause in a reason: the whole reason must fit into `REASON_MAX_CHARS`. Characters. */
const CAUSE_MAX_CHARS = 240;

/** The reason of an operation that stopped because a required plugin did not do its part. */
export function describeRequiredFailure({ displayName }: Link, { what, cause, advice }: FailureText): string {
  const because = cause ? `: ${cause.slice(0, CAUSE_MAX_CHARS).replace(/\.$/, '')}` : '';
  const text =
    `“${displayName}” ${what}, and this account requires it${because}. ` +
    (advice ?? 'Try again. If it fails again, see the plugin’s log, or pause the plugin to continue without it.');
  return text.slice(0, REASON_MAX_CHARS);
}

const formatSeconds = (ms: number): string => `${Math.round(ms / (SECOND / 10)) / 10} s`;

type Applied =
  | { readonly ok: true; readonly context: Fields; readonly changed: boolean }
  | { readonly ok: false; readonly message: string };

function applyAnswer(hook: HookName, context: Fields, answer: unknown): Applied {
  if (answer === undefined) return { ok: true, context, changed: false };
  const { answers }: HookRow = hooks[hook];
  if (answers.kind === 'patch') return applyPatch(hook, context, answer);
  const checked = checkValue(answers.schema, answer);
  if (!checked.ok) return { ok: false, message: `${hook}: its answer${checked.message}` };
  const changed = context[answers.field] !== checked.value;
  return { ok: true, context: changed ? { ...context, [answers.field]: checked.value } : context, changed };
}

/** Fields that the supervisor and the child add to each link's context. Ignored in the answer of a handler that returns `ctx`. */
const ADDED_FIELDS: ReadonlySet<string> = new Set([...Object.keys(hookBase.shape), 'signal']);

/** Maximum lengths of a field's name in a fault, and of a fault: a plugin chooses the names, and a path may hold several. Characters. */
const NAME_MAX_CHARS = 100;
const FAULT_MAX_CHARS = 500;
const cutName = (name: string): string => name.slice(0, NAME_MAX_CHARS);

function applyPatch(hook: HookName, context: Fields, answer: unknown): Applied {
  if (!isRecord(answer)) return { ok: false, message: `${hook} must return an object or nothing` };
  const { cancellable }: HookRow = hooks[hook];
  const patchable = patchablePaths[hook];
  let next: Fields = context;
  for (const [key, value] of Object.entries(answer)) {
    if (value === undefined || ADDED_FIELDS.has(key)) continue;
    const whole = patchable.get(key);
    const present = getOwn(next, key);
    const merged = whole ? checkValue(whole, value) : mergeGroup(patchable, key, present, value);
    if (!merged.ok) {
      const hint = cancellable && key === 'cancel' ? '; to cancel the operation, call ctx.cancel(reason)' : '';
      return { ok: false, message: `${hook}: ${cutName(key)}${merged.message}${hint}`.slice(0, FAULT_MAX_CHARS) };
    }
    if (!isDeepStrictEqual(merged.value, present)) next = { ...next, [key]: merged.value };
  }
  return { ok: true, context: next, changed: next !== context };
}

/** The message follows the name of the field. */
type Merged = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly message: string };

function checkValue(schema: z.ZodType, value: unknown): Merged {
  const checked = schema.safeParse(value, { error: describeFieldFault });
  return checked.success ? { ok: true, value: checked.data } : { ok: false, message: ` ${locateFault(checked.error)}` };
}

/** Merges one level deep: of `message`, the fields listed as `message.x`. Other fields may be returned only unchanged. */
function mergeGroup(patchable: ReadonlyMap<string, z.ZodType>, key: string, present: unknown, given: unknown): Merged {
  if (isDeepStrictEqual(present, given)) return { ok: true, value: present };
  if (!isRecord(present) || !isRecord(given))
    return { ok: false, message: ` cannot be changed${present === undefined ? suggestPath(patchable, key) : ''}` };
  const value: Record<string, unknown> = { ...present };
  for (const [field, wanted] of Object.entries(given)) {
    const schema = patchable.get(`${key}.${field}`);
    if (!schema) {
      const isKnown = Object.hasOwn(present, field);
      if (isKnown && isDeepStrictEqual(present[field], wanted)) continue;
      const hint = isKnown ? '' : suggestPath(patchable, `${key}.${field}`);
      return { ok: false, message: `.${cutName(field)} cannot be changed${hint}` };
    }
    if (wanted === undefined) continue;
    const checked = checkValue(schema, wanted);
    if (!checked.ok) return { ok: false, message: `.${field}${checked.message}` };
    value[field] = checked.value;
  }
  return { ok: true, value };
}

function suggestPath(patchable: ReadonlyMap<string, z.ZodType>, wrong: string): string {
  const nearest = findNearName(cutName(wrong), [...patchable.keys()]);
  return nearest === null ? '' : `; did you mean ${nearest}?`;
}

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
