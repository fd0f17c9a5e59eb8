/** The text of docs/package-format.md, made from the schema of the frontmatter, the capabilities and the limits. */
import { z } from 'zod';
import { BUNDLE_MAX_BYTES } from '../../api/package/bundle.ts';
import { SOURCE_MAX_BYTES } from '../../api/package/bundle-modules.ts';
import { OFFER_MAX_BYTES, OFFER_MAX_VALUES, SCHEMA_MAX_BYTES } from '../../api/package/discovery.ts';
import { FRONTMATTER_MAX_BYTES } from '../../api/package/frontmatter.ts';
import { FILES_MAX, TEXT_MAX_BYTES } from '../../api/package/package-files.ts';
import { PROMPT_DESCRIPTION_MAX_CHARS } from '../../api/package/prompts.ts';
import { UPLOAD_MAX_BYTES } from '../../api/package/upload.ts';
import { RATIO_FLOOR_BYTES, UNPACKED_MAX_BYTES } from '../../api/package/zip-reader.ts';
import { FILE_LIST_MAX_BYTES, KIB, limits, MIB, ZIP_RATIO_MAX } from '../../sdk/contract/limits.ts';
import { manifest } from '../../sdk/contract/manifest.ts';
import { PATH_MAX_BYTES, PATH_MAX_DEPTH, SEGMENT_MAX_BYTES } from '../../sdk/contract/package-paths.ts';
import { capabilities, httpReach } from '../../sdk/contract/protocol.ts';
import type { Reach } from '../../sdk/contract/rows.ts';
import { SEM_VER_MAX_CHARS } from '../../sdk/contract/version-numbers.ts';
import { PACKAGE_RULES, PUBLISHING_RULES } from './package-prose.ts';

type Cells = readonly string[];

function table(head: Cells, rows: readonly Cells[]): string {
  const line = (cells: Cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n');
}

function formatBytes(bytes: number): string {
  if (bytes % MIB === 0) return `${bytes / MIB} MiB`;
  return bytes % KIB === 0 ? `${bytes / KIB} KiB` : `${bytes} bytes`;
}

const LIMITS: readonly Cells[] = [
  ['Zip', formatBytes(UPLOAD_MAX_BYTES)],
  ['Zip, unpacked', formatBytes(UNPACKED_MAX_BYTES)],
  [
    `Ratio of a file over ${formatBytes(RATIO_FLOOR_BYTES)}, and of the whole zip, to its packed size`,
    `${ZIP_RATIO_MAX} : 1`,
  ],
  ['File list of a publish or draft, as JSON', formatBytes(FILE_LIST_MAX_BYTES)],
  ['Files and folders', String(FILES_MAX)],
  ['Path', `${PATH_MAX_BYTES} bytes, ${PATH_MAX_DEPTH} levels`],
  ['Name of a file or folder', `${SEGMENT_MAX_BYTES} bytes`],
  ['`readme.md`, a command, a `SKILL.md`', formatBytes(TEXT_MAX_BYTES)],
  ['Frontmatter', formatBytes(FRONTMATTER_MAX_BYTES)],
  ['Files in `commands/`, folders in `skills/`', `${limits.commands}, ${limits.skills}`],
  ['Description of a command or skill', `${PROMPT_DESCRIPTION_MAX_CHARS} characters`],
  ['Code: all files that are imported', formatBytes(SOURCE_MAX_BYTES)],
  ['Bundle that is made of it', formatBytes(BUNDLE_MAX_BYTES)],
  ['Tools, commands, providers', `${limits.tools}, ${limits.commands}, ${limits.providers}`],
  ['Schema of a tool', formatBytes(SCHEMA_MAX_BYTES)],
  ['Names, descriptions, schemas and models, together', `${formatBytes(OFFER_MAX_BYTES)}, ${OFFER_MAX_VALUES} values`],
  ['Time to load the code and register', `${limits.loadBudgetMs / 1000} s`],
  ['Version number', `${SEM_VER_MAX_CHARS} characters`],
];

/** The part of JSON Schema that the frontmatter uses. */
interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | false;
}

/** One row for each field, those of entries as `settings.*.label`. */
function listFields(schema: Schema, above = ''): Cells[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const path = `${above}${name}`;
    const entry = field.additionalProperties;
    const isNeeded = schema.required?.includes(name) ?? false;
    const fallback =
      field.default === undefined ? (isNeeded ? 'required' : 'none') : `\`${JSON.stringify(field.default)}\``;
    const row = [`\`${path}\``, describeType(field), fallback, field.description ?? ''];
    return [row, ...(entry ? listFields(entry, `${path}.*.`) : [])];
  });
}

function describeType({ type, items, minLength = 0, maxLength, minItems = 0, maxItems }: Schema): string {
  if (type === 'string') return maxLength === undefined ? 'text' : `text, ${minLength}-${maxLength} characters`;
  if (type === 'boolean') return '`true` or `false`';
  if (type !== 'array') return 'fields by name';
  return `list of ${minItems}-${maxItems}${items?.maxLength ? `, each of at most ${items.maxLength} characters` : ''}`;
}

function listCapabilityRows(): Cells[] {
  const row = (name: string, { reach, risk }: Reach) => [`\`${name}\``, reach, risk];
  const members = Object.entries(capabilities).flatMap(([member, found]) => [
    row(`host.${member}`, found),
    row(`host.${member}:read`, found.read),
  ]);
  return [...members, row('host.http:<host>', { ...httpReach, reach: httpReach.reach.replace('{host}', 'that host') })];
}

export function packagePage(): string {
  const fields = listFields(z.toJSONSchema(manifest, { io: 'input', unrepresentable: 'any' }) as Schema);
  return [
    '# The package format',
    'Generated from `sdk/contract/manifest.ts`, `sdk/contract/protocol.ts` and the limits in `api/package/` by `npm run -s generate`.',
    PACKAGE_RULES.layout,
    '## Frontmatter',
    PACKAGE_RULES.frontmatter,
    table(['Field', 'Type', 'Default', 'Meaning'], fields),
    PACKAGE_RULES.frontmatterEnd,
    '## Capabilities',
    PACKAGE_RULES.capabilities,
    table(['Capability', 'What the user reads', 'Risk'], listCapabilityRows()),
    PACKAGE_RULES.code,
    '## Limits',
    'A package that exceeds a limit is refused with a sentence that names the file and the limit. [Quotas](quotas.md) limit the total storage of an account.',
    table(['What', 'Maximum'], LIMITS),
    PACKAGE_RULES.paths,
    PACKAGE_RULES.zips,
    PACKAGE_RULES.warnings,
    PACKAGE_RULES.hash,
    PUBLISHING_RULES.versions,
    PUBLISHING_RULES.names,
    PUBLISHING_RULES.consent,
    PUBLISHING_RULES.delisting,
    PUBLISHING_RULES.verified,
    '',
  ]
    .join('\n\n')
    .replace(/\n{2}$/, '\n');
}
