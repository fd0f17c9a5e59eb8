/**
 * Warns about a hook's handler that changes its context and returns nothing. Such a change is lost, so a redactor written like that
 * lets everything pass, and nothing else would say so.
 */
import type { HookName, hooks } from '../sdk/contract/protocol.ts';
import type { Outcome } from './invocations.ts';
import type { Handler } from './signatures.ts';

/** Calls of each handler that are watched: an author sees the warning in the first ones. Watching takes 5 µs, a twentieth of a call. */
const WATCHED_CALLS = 1_000;
/** Values that are compared in one context. Those of a message or a command are fewer. */
const VALUES_MAX = 200;
/** Values that are compared in one object or list, so that a long one does not hide the fields beside it. */
const VALUES_OF_ONE_MAX = 20;

type Changeable<Name extends HookName> = (typeof hooks)[Name]['answers'] extends { patchable: infer Paths }
  ? Paths
  : readonly string[];
/** What a handler can change by what it returns, repeated because the child imports only types from the SDK. The type keeps it equal. */
const CHANGEABLE: { readonly [Name in HookName]: Changeable<Name> } = {
  'middleware.systemPrompt': ['systemPrompt'],
  // It returns a summary, and its context has none.
  'compaction.summarize': [],
  'middleware.inboundMessage': ['message.text', 'message.attachments'],
  'middleware.outboundMessage': ['message.text', 'message.attachments'],
  'middleware.agentMessage': ['message.text'],
  'middleware.toolCall': ['call.arguments'],
  'middleware.toolResult': ['result.content', 'result.isError'],
  'middleware.todoCreate': ['todo.title', 'todo.notes', 'todo.dueAt'],
  'middleware.todoUpdate': ['changes'],
  'middleware.todoComplete': [],
  'middleware.todoDelete': [],
  'middleware.notifySchedule': ['notify.text', 'notify.at'],
  'middleware.notifyDeliver': ['notify.text'],
  'middleware.sshCommand': ['command', 'cwd', 'env'],
  'middleware.sshCommandInput': ['data'],
  'middleware.sshCommandOutput': ['stdout', 'stderr'],
  'middleware.sessionClear': [],
};

/** A value as the handler got it. */
interface RecordedValue {
  readonly owner: object;
  readonly name: string;
  readonly value: unknown;
  /** Names that the value has, if it is an object or a list. */
  readonly size: number;
  readonly parent: RecordedValue | null;
}

export class LostChanges {
  readonly #warn: (invocationId: string, message: string) => void;
  /** Watched calls of each handler. */
  readonly #watched = new Map<string, number>();
  /** Handlers that were warned about: each line would say the same. */
  readonly #reported = new Set<string>();

  constructor(warn: (invocationId: string, message: string) => void) {
    this.#warn = warn;
  }

  /** @param run runs the handler that it gets */
  watch(
    { name, invocationId }: { readonly name: string; readonly invocationId: string },
    handler: Handler,
    run: (handler: Handler) => Outcome | Promise<Outcome>,
  ): Outcome | Promise<Outcome> {
    const watched = this.#watched.get(name) ?? 0;
    if (watched === WATCHED_CALLS || this.#reported.has(name)) return run(handler);
    this.#watched.set(name, watched + 1);
    let recorded: RecordedValue[] = [];
    const outcome = run((context) => {
      recorded = recordValues(context as object, CHANGEABLE[name as HookName] ?? []);
      return handler(context);
    });
    const reportIfLost = (ended: Outcome): Outcome => {
      if (ended.outcome !== 'answered' || ended.answer !== undefined) return ended;
      const changed = recorded.find(hasChanged);
      if (changed && !this.#reported.has(name)) {
        this.#reported.add(name);
        this.#warn(invocationId, describeLoss(name, describePlace(changed)));
      }
      return ended;
    };
    return outcome instanceof Promise ? outcome.then(reportIfLost) : reportIfLost(outcome);
  }
}

const describeLoss = (hook: string, place: string): string =>
  `${hook} changed ${place} and returned nothing, so the change is lost: handlers get a copy. Return ${hook === 'middleware.systemPrompt' ? 'the new text' : 'the fields that change'}`;

/** Lists the values at the paths, and what they hold, level by level. */
function recordValues(context: object, paths: readonly string[]): RecordedValue[] {
  const recorded: RecordedValue[] = [];
  const addValue = (owner: object, name: string, parent: RecordedValue | null): RecordedValue => {
    const value = (owner as Record<string, unknown>)[name];
    const added = { owner, name, value, size: countNames(value), parent };
    recorded.push(added);
    return added;
  };
  const roots = paths.map((path) => {
    const [name = '', field] = path.split('.');
    const added = addValue(context, name, null);
    return field !== undefined && isCompared(added.value) ? addValue(added.value, field, added) : added;
  });
  // The list grows meanwhile.
  const holders = [...roots];
  for (const holder of holders) {
    if (!isCompared(holder.value)) continue;
    for (const name of listNames(holder.value)) {
      if (recorded.length >= VALUES_MAX) return recorded;
      holders.push(addValue(holder.value, name, holder));
    }
  }
  return recorded;
}

/** Reads no getter, because that would be code of the plugin. */
const hasChanged = ({ owner, name, value, size }: RecordedValue): boolean =>
  Object.getOwnPropertyDescriptor(owner, name)?.value !== value || countNames(value) !== size;

/** Bytes are not compared one by one. */
const isCompared = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !ArrayBuffer.isView(value);

function countNames(value: unknown): number {
  if (!isCompared(value)) return 0;
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

/** Does not list the places of a whole list, which may have many. */
const listNames = (owner: object): string[] =>
  Object.keys(Array.isArray(owner) ? owner.slice(0, VALUES_OF_ONE_MAX) : owner).slice(0, VALUES_OF_ONE_MAX);

function describePlace({ name, owner, parent }: RecordedValue): string {
  const before = parent ? describePlace(parent) : 'ctx';
  return Array.isArray(owner) ? `${before}[${name}]` : `${before}.${name}`;
}
