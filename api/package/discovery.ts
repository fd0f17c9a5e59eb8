/** Collects and checks the surface of a version: the registrations of its code, and its prompt files. */
import type { Introspection } from '../../db/jobs/introspections.ts';
import { findBundlePosition, mapStack } from '../../db/records/source-maps.ts';
import { listRegisteredCapabilities } from '../../sdk/contract/capabilities.ts';
import type { ProblemLocation } from '../../sdk/contract/errors.ts';
import { findToolNameFault } from '../../sdk/contract/full-names.ts';
import { KIB, limits } from '../../sdk/contract/limits.ts';
import { listSecretCapabilities, type Manifest } from '../../sdk/contract/manifest.ts';
import { surfaceName } from '../../sdk/contract/payloads.ts';
import { events, hooks, type Registrations, type SchemaFault, surfaces } from '../../sdk/contract/protocol.ts';
import type { HookRow } from '../../sdk/contract/rows.ts';
import { checkCost } from '../../sdk/contract/untrusted-json.ts';
import { describeHiddenCharacter } from '../../sdk/contract/visible-text.ts';
import { findNearName } from '../../service/text/near-name.ts';
import { cutQuoted } from '../../service/text/quoted-text.ts';
import { type Bundle, ENTRY } from './bundle.ts';
import { invalidAll, invalidAt } from './invalid-package.ts';
import { explainLoadError } from './load-hints.ts';
import type { Prompt } from './prompts.ts';

/** The summary that the author and the catalog show. */
export interface Discovered {
  readonly commands: { name: string; description: string; source: 'code' | 'prompt' }[];
  readonly skills: { name: string; description: string }[];
  /** Full names of hooks, including compaction. */
  readonly middleware: string[];
  /** Names of the handled lifecycle events. */
  readonly lifecycle: string[];
  readonly tools: { name: string; description: string; parameters: unknown }[];
  readonly providers: { name: string; models: { id: string; name: string }[] }[];
  readonly channel: { receive: boolean; send: boolean; handshake: boolean } | null;
}
interface Prompts {
  readonly commands: readonly Prompt[];
  readonly skills: readonly Prompt[];
}

/** All fixed names that an author may assign; tools, commands and providers have free names. */
const FIXED: readonly string[] = [
  ...Object.keys(hooks),
  ...Object.keys(events).map((name) => `events.${name}`),
  ...Object.keys(surfaces).filter((name) => name.startsWith('channel.')),
  'channel.handshakeOn',
];
/** The hooks that judge messages piece by piece, if they are assigned so. */
const STREAMED: readonly string[] = (Object.entries(hooks) as [string, HookRow][])
  .filter(([, { streams }]) => streams)
  .map(([name]) => name);
/** Edits between a name and a suggestion, at most: a word is missing in `middleware.prompt`. */
const EDITS_MAX = 8;
/** Groups with free names, and the maximum number of entries of each. */
const CHOSEN: Readonly<Record<string, number>> = {
  tools: limits.tools,
  commands: limits.commands,
  providers: limits.providers,
};

/** Maximum size of a tool's schema, which is sent to the model with every request. Bytes of JSON. */
export const SCHEMA_MAX_BYTES = 64 * KIB;
/**
 * Maximum size of everything that a version offers. A process that serves an account holds it for each of the account's
 * plugins. Bytes of JSON.
 */
export const OFFER_MAX_BYTES = 256 * KIB;
/** The same for the values in it: an empty object takes twenty times the memory of its JSON. 256 KiB of usual schemas have 10,000. */
export const OFFER_MAX_VALUES = 16_000;

/** The registrations of a bundle, with their positions. */
export interface Introspected {
  readonly registrations: Registrations;
  readonly schemaFaults: readonly SchemaFault[];
  /** The author's file and line of an assignment such as `tools.forecast`. */
  placeOf(name: string): Pick<ProblemLocation, 'path' | 'line' | 'column'>;
}

/**
 * @param sourceName the bundle's file name in stack traces
 * @throws Problem `invalid_package` when the bundle failed to load, or registered something unknown
 */
export function acceptIntrospection(found: Introspection, bundle: Bundle, sourceName: string): Introspected {
  const place = (stack: string | undefined) => ({
    path: ENTRY,
    ...(stack === undefined ? {} : mapStack(bundle.sourceMap, stack, sourceName)),
  });
  if (!found.ok) {
    const at = found.stack === undefined ? null : findBundlePosition(found.stack, sourceName);
    throw invalidAt({
      ...place(found.stack),
      message: explainLoadError(found.message, bundle, at),
    });
  }
  const faults = Object.entries(found.places).flatMap(([name, stack]) => {
    const message = nameFault(name);
    return message === null ? [] : [{ ...place(stack), message }];
  });
  const unstreamed = (found.registrations.streams ?? []).filter((name) => !STREAMED.includes(name));
  faults.push(
    ...unstreamed.map((name) => ({
      ...place(found.places[name]),
      message: `${cutQuoted(name)} cannot have “stream”: only ${STREAMED.join(', ')} judges messages piece by piece.`,
    })),
  );
  if (faults.length > 0) throw invalidAll(faults);
  for (const [group, most] of Object.entries(CHOSEN)) {
    const names = Object.keys(found.registrations[group as 'tools' | 'commands' | 'providers']);
    if (names.length > most) {
      const message = `The package registers ${names.length} ${group}; the maximum is ${most}.`;
      // The database does not keep the order of the names.
      const stacks = names.map((name) => found.places[`${group}.${name}`]);
      const positions = stacks.map((stack) => ({ stack, at: findBundlePosition(stack ?? '', sourceName) }));
      const [first] = positions.sort((a, b) => comparePositions(a.at, b.at)).slice(most);
      throw invalidAt({ ...place(first?.stack), message });
    }
  }
  const { registrations, schemaFaults = [] } = found;
  return { registrations, schemaFaults, placeOf: (name) => place(found.places[name]) };
}

type BundlePosition = ReturnType<typeof findBundlePosition>;

/** Orders by place in the bundle; code without a place comes last. */
function comparePositions(a: BundlePosition, b: BundlePosition): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return a.line - b.line || a.column - b.column;
}

function nameFault(name: string): string | null {
  const dot = name.indexOf('.');
  if (!Object.hasOwn(CHOSEN, name.slice(0, dot))) {
    if (FIXED.includes(name)) return null;
    const near = findNearName(name, FIXED, EDITS_MAX);
    const hint = near === null ? '' : `; did you mean “${near}”?`;
    return `“${cutQuoted(name)}” cannot be registered by a plugin${hint}`;
  }
  const fault = surfaceName.safeParse(name.slice(dot + 1)).error?.issues[0]?.message;
  return fault === undefined ? null : `“${cutQuoted(name)}” cannot be registered: its name ${fault}`;
}

/**
 * Checks what models and users see of tools, commands and providers.
 *
 * @throws Problem `invalid_package` with all faults of names, texts and schemas
 */
export function checkSurfaces(slug: string, { registrations, schemaFaults, placeOf }: Introspected): void {
  const faults = Object.entries(registrations.tools).flatMap(
    ([tool, { description, parameters }]): ProblemLocation[] => {
      // Called for faults only: the first place parses the source map, which takes up to 0.2 s.
      const place = () => placeOf(`tools.${tool}`);
      const field = `tools.${tool}.parameters`;
      const nameFault = findToolNameFault({ slug }, tool);
      if (nameFault !== null) return [{ ...place(), message: `The tool “${tool}” ${nameFault}.` }];
      const bytes = Buffer.byteLength(JSON.stringify(parameters));
      if (bytes > SCHEMA_MAX_BYTES) {
        const message = `has ${bytes} bytes of JSON; the maximum is ${SCHEMA_MAX_BYTES}. Shorten it: models get it with every request`;
        return [{ ...place(), field, message }];
      }
      const hidden = [
        ...findHiddenTexts(description, `tools.${tool}.description`),
        ...findHiddenTexts(parameters, field),
      ];
      if (hidden.length > 0) return hidden.map((fault) => ({ ...place(), ...fault }));
      return schemaFaults
        .filter((fault) => fault.tool === tool)
        .map(({ at, message }) => ({ ...place(), field: `${field}${at}`, message }));
    },
  );
  const others = [
    ...Object.entries(registrations.commands).map(
      ([name, { description }]) => [`commands.${name}`, description] as const,
    ),
    ...Object.entries(registrations.providers).map(([name, { models }]) => [`providers.${name}`, models] as const),
  ];
  for (const [name, shown] of others) {
    faults.push(...findHiddenTexts(shown, name).map((fault) => ({ ...placeOf(name), ...fault })));
  }
  if (faults.length > 0) throw invalidAll(faults);
}

/** Finds the texts of a registration that hold hidden characters, with their places in it. */
function findHiddenTexts(value: unknown, field: string): { field: string; message: string }[] {
  if (typeof value === 'string') {
    const message = describeHiddenCharacter(value, 'lines');
    return message === null ? [] : [{ field, message }];
  }
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((inner, index) => findHiddenTexts(inner, `${field}/${index}`));
  return Object.entries(value).flatMap(([key, inner]) => {
    const message = describeHiddenCharacter(key, 'lines');
    if (message !== null) return [{ field, message: `has a name that ${message}` }];
    return findHiddenTexts(inner, `${field}/${key}`);
  });
}

/** @throws Problem `invalid_package` when both are empty, or two commands have the same name */
export function discover({ registrations: found, placeOf }: Introspected, prompts: Prompts): Discovered {
  const twice = prompts.commands.filter((command) => Object.hasOwn(found.commands, command.name));
  if (twice.length > 0)
    throw invalidAll(
      twice.flatMap(({ name, path }) => {
        const place = placeOf(`commands.${name}`);
        return [
          { path, message: `The command “${name}” is registered in ${place.path ?? ENTRY} as well.` },
          { ...place, message: `The command “${name}” is the file ${path} as well.` },
        ];
      }),
    );
  const { receive, send, handshake } = found.channel;
  const discovered: Discovered = {
    commands: [
      ...Object.entries(found.commands).map(([name, { description }]) => ({
        name,
        description,
        source: 'code' as const,
      })),
      ...prompts.commands.map(({ name, description }) => ({ name, description, source: 'prompt' as const })),
    ],
    skills: prompts.skills.map(({ name, description }) => ({ name, description })),
    middleware: found.hooks.toSorted(),
    lifecycle: found.events.toSorted(),
    tools: Object.entries(found.tools).map(([name, tool]) => ({ name, ...tool })),
    providers: Object.entries(found.providers).map(([name, { models }]) => ({ name, models })),
    channel: receive || send || handshake ? { receive, send, handshake } : null,
  };
  const { channel, ...lists } = discovered;
  if (channel === null && Object.values(lists).every((list) => list.length === 0)) {
    const message =
      'The package registers nothing and has no command or skill. Assign a handler, such as middleware.systemPrompt.';
    throw invalidAt({ path: ENTRY, message });
  }
  return discovered;
}

/** @throws Problem `invalid_package` when the names, descriptions, schemas and models are too large together */
export function checkOfferSize(discovered: Discovered): void {
  const json = Buffer.from(JSON.stringify(discovered));
  requireAtMost(json.byteLength, OFFER_MAX_BYTES, 'bytes');
  const unbounded = { levelsMax: Number.POSITIVE_INFINITY, valuesMax: Number.POSITIVE_INFINITY };
  requireAtMost(checkCost(json, 0, json.byteLength, unbounded).values, OFFER_MAX_VALUES, 'values');
}

function requireAtMost(amount: number, max: number, unit: string): void {
  if (amount <= max) return;
  const message = `The names, descriptions, schemas and models that the package offers have ${amount} ${unit}; the maximum is ${max}. Shorten them, or split the package.`;
  throw invalidAt({ path: ENTRY, message });
}

/** Lists all capabilities of a version, declared and registered, sorted. */
export function listCapabilities(manifest: Manifest, found: Registrations, prompts: Prompts): string[] {
  const registered = listRegisteredCapabilities(
    found,
    prompts.commands.map((command) => command.name),
  );
  return [...new Set([...manifest.capabilities, ...listSecretCapabilities(manifest), ...registered])].sort();
}
