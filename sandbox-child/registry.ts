/** Collects what a bundle registers by assignment, such as `tools.forecast = {…}`, until the first turn has ended. */
import type { Registrations, Target } from '../sdk/contract/protocol.ts';
import type { RegistrationGroup as Group } from '../sdk/contract/realm-globals.ts';
import { type Assigned, type Handler, withSignature } from './signatures.ts';

export interface Registry {
  /** The globals that plugins assign to. */
  readonly globals: Readonly<Record<string, object>>;
  /** Makes the second assignment of a name throw, so that a handler cannot replace another one unnoticed. */
  refuseRepeats(): void;
  /** Ends registration and returns the registrations. @throws with one sentence if one is malformed */
  seal(expected: Registrations | null): { registrations: Registrations; places: Record<string, string> };
  /** The error of the first assignment after `seal`. Null: no assignment came later. */
  findLate(): Error | null;
  /** Finds the handler of a target; null if the bundle registered none. */
  find(target: Target): Handler | null;
}

/** By kind, then by name: building and hashing a combined key would cost time in every call. */
type Handlers = Map<Target['kind'], Map<string, Handler>>;

const GROUPS: readonly Group[] = ['middleware', 'compaction', 'events', 'tools', 'commands', 'providers', 'channel'];
/** Largest number of assignments in one bundle, all groups together: `REGISTRATIONS_MAX`, repeated because the child imports only types. */
const ASSIGNMENTS_MAX = 1_000;
/** Length of an assignment's stack. Its first frames name the author's line; deeper ones belong to the realm. */
const PLACE_MAX_CHARS = 2_000;

export function openRegistry(): Registry {
  const assigned = new Map<Group, Map<string, unknown>>(GROUPS.map((group) => [group, new Map()]));
  const places: Record<string, string> = Object.create(null);
  let open = true;
  let late: Error | null = null;
  let areRepeatsRefused = false;
  let count = 0;
  const record = (group: Group, key: string | symbol, value: unknown): boolean => {
    if (!open) {
      const error = new TypeError(`${group} is closed: assign while the file runs, before the first await`);
      late ??= error;
      throw error;
    }
    if (typeof key !== 'string') throw new TypeError(`${group} takes names only`);
    count += 1;
    if (count > ASSIGNMENTS_MAX) throw new RangeError(`a plugin may register at most ${ASSIGNMENTS_MAX} items`);
    if (areRepeatsRefused && assigned.get(group)?.has(key))
      throw new TypeError(`${group}.${key} is assigned already: a plugin assigns each name once`);
    assigned.get(group)?.set(key, value);
    places[`${group}.${key}`] = (new Error('assigned').stack ?? '').slice(0, PLACE_MAX_CHARS);
    return true;
  };
  const handlers: Handlers = new Map();
  return {
    globals: Object.fromEntries(GROUPS.map((group) => [group, createAssignable(group, assigned, record)])),
    refuseRepeats() {
      areRepeatsRefused = true;
    },
    seal(expected) {
      open = false;
      const registrations = runWithPlaces(places, () => readRegistrations(assigned, handlers));
      if (expected) refuseUnexpected(registrations, expected);
      return { registrations, places: { ...places } };
    },
    findLate: () => late,
    find: ({ kind, name }) => handlers.get(kind)?.get(name) ?? null,
  };
}

function createAssignable(
  group: Group,
  assigned: ReadonlyMap<Group, ReadonlyMap<string, unknown>>,
  record: (group: Group, key: string | symbol, value: unknown) => boolean,
): object {
  return new Proxy(Object.create(null), {
    set: (_target, key, value) => record(group, key, value),
    defineProperty: (_target, key, descriptor) => record(group, key, descriptor.value),
    get: (_target, key) => (typeof key === 'string' ? assigned.get(group)?.get(key) : undefined),
    has: (_target, key) => typeof key === 'string' && assigned.get(group)?.has(key) === true,
    deleteProperty: () => false,
    setPrototypeOf: () => false,
  });
}

function readRegistrations(
  assigned: ReadonlyMap<Group, ReadonlyMap<string, unknown>>,
  handlers: Handlers,
): Registrations {
  const entries = (group: Group): [string, unknown][] => [...(assigned.get(group) ?? [])];
  const addHandler = (kind: Target['kind'], name: string, label: string, value: unknown, owner?: unknown): void => {
    if (typeof value !== 'function') throw new TypeError(`${label} must be a function`);
    if (!handlers.has(kind)) handlers.set(kind, new Map());
    handlers.get(kind)?.set(name, withSignature({ kind, name }, value as Assigned, owner));
  };
  const readSurfaces = (group: 'tools' | 'commands' | 'providers', handler: string, fields: readonly string[]) =>
    Object.fromEntries(
      entries(group).map(([name, value]) => {
        const label = `${group}.${name}`;
        if (typeof value !== 'object' || value === null) throw new TypeError(`${label} must be an object`);
        const own = value as Record<string, unknown>;
        addHandler(group, name, `${label}.${handler}`, own[handler], own);
        return [name, Object.fromEntries(fields.map((field) => [field, copyJson(own[field], `${label}.${field}`)]))];
      }),
    );
  const hooks = [
    ...entries('middleware').map(prefixName('middleware')),
    ...entries('compaction').map(prefixName('compaction')),
  ];
  const streams: string[] = [];
  for (const [label, value] of hooks) {
    if (typeof value !== 'object' || value === null) {
      addHandler('hook', label, label, value);
      continue;
    }
    const { handler, stream } = value as Record<string, unknown>;
    addHandler('hook', label, `${label}.handler`, handler, value);
    if (stream !== undefined && typeof stream !== 'boolean')
      throw new TypeError(`${label}.stream must be true or false`);
    if (stream) streams.push(label);
  }
  for (const [name, value] of entries('events')) addHandler('event', name, `events.${name}`, value);
  const channel = new Map(entries('channel'));
  const handshakeOn = channel.get('handshakeOn');
  channel.delete('handshakeOn');
  for (const [name, value] of channel) addHandler('channel', name, `channel.${name}`, value);
  return {
    hooks: hooks.map(([label]) => label),
    ...(streams.length > 0 ? { streams } : {}),
    events: entries('events').map(([name]) => name),
    tools: readSurfaces('tools', 'handler', ['description', 'parameters']) as Registrations['tools'],
    commands: readSurfaces('commands', 'handler', ['description']) as Registrations['commands'],
    providers: readSurfaces('providers', 'chat', ['models']) as Registrations['providers'],
    channel: {
      receive: channel.has('receive'),
      send: channel.has('send'),
      handshake: channel.has('handshake'),
      handshakeOn:
        handshakeOn === undefined
          ? null
          : (copyJson(handshakeOn, 'channel.handshakeOn') as Registrations['channel']['handshakeOn']),
    },
  };
}

/** Gives an error about `tools.x.handler` the stack of the assignment of `tools.x`. */
function runWithPlaces<T>(places: Readonly<Record<string, string>>, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const [group, name] = error.message.split(/[. ]/, 2);
    const stack = places[`${group}.${name}`] ?? '';
    throw Object.defineProperty(error, 'stack', { value: stack.replace('assigned', error.message) });
  }
}

const prefixName =
  (group: string) =>
  ([name, value]: [string, unknown]): [string, unknown] => [`${group}.${name}`, value];

/** Copies a value through JSON, so that a getter cannot return different values later. */
function copyJson(value: unknown, label: string): unknown {
  if (value === undefined) throw new TypeError(`${label} is missing`);
  try {
    return JSON.parse(JSON.stringify(value));
  } catch {
    throw new TypeError(`${label} must be JSON`);
  }
}

/** Refuses a bundle that registers more than it did when the version was published. */
function refuseUnexpected(found: Registrations, expected: Registrations): void {
  const listNames = (from: Registrations): string[] => [
    ...from.hooks,
    ...from.events.map((name) => `events.${name}`),
    ...(['tools', 'commands', 'providers'] as const).flatMap((kind) =>
      Object.keys(from[kind]).map((name) => `${kind}.${name}`),
    ),
    ...(['receive', 'send', 'handshake'] as const)
      .filter((name) => from.channel[name])
      .map((name) => `channel.${name}`),
  ];
  const known = new Set(listNames(expected));
  const fresh = listNames(found).find((name) => !known.has(name));
  if (fresh !== undefined) throw new Error(`${fresh} was not registered when this version was published`);
}
