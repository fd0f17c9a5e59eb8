/** Limits the cost of checking a value against a schema: endless references, and patterns that backtrack. */
import { escapePointer, type SchemaObject, type Subschema } from './schema-walk.ts';

/** Maximum number of schemas applied to one value. Ordinary tools stay below a hundred. */
const APPLICATIONS_MAX = 10_000;
/** Maximum number of analysed patterns per package. */
const PATTERNS_MAX = 100;
/** Time limit for one pattern; an ordinary one takes 20-150 ms. Milliseconds. */
const PATTERN_BUDGET_MS = 2_000;
/** Time limit for all patterns of a package. Milliseconds. */
const PATTERNS_BUDGET_MS = 15_000;
/** Maximum polynomial degree of a pattern's time in the length of the text. */
const POWER_MAX = 3;
const EXAMPLE_MAX_CHARS = 120;

export interface CostFault {
  /** JSON pointer inside the schema. */
  readonly at: string;
  readonly message: string;
}

/** Finds a `$ref` that leads back to itself for the same value, or references that multiply; null: none. */
export function findReferenceFault(nodes: readonly Subschema[]): CostFault | null {
  const cost = new Map<Subschema, number>();
  const open = new Set<Subschema>();
  for (const start of nodes) {
    const path: Subschema[] = [start];
    while (path.length > 0) {
      const node = path[path.length - 1] as Subschema;
      open.add(node);
      const next = node.inPlace.find((child) => !cost.has(child));
      if (next && open.has(next))
        return { at: node.at, message: `leads back to ${pointer(next.at)} for the same value, without end` };
      if (next) {
        path.push(next);
        continue;
      }
      path.pop();
      open.delete(node);
      const own = node.inPlace.reduce((sum, child) => sum + (cost.get(child) ?? 0), 1);
      if (own > APPLICATIONS_MAX)
        return { at: node.at, message: `applies more than ${APPLICATIONS_MAX} schemas to one value` };
      cost.set(node, own);
    }
  }
  return null;
}

const pointer = (at: string): string => `“#${at}”`;

interface Pattern {
  readonly at: string;
  readonly text: string;
}

function patternsOf(nodes: readonly Subschema[]): Pattern[] {
  return nodes.flatMap(({ at, schema }) => {
    const { pattern, patternProperties } = schema;
    const own = typeof pattern === 'string' ? [{ at: `${at}/pattern`, text: pattern }] : [];
    const keys =
      typeof patternProperties === 'object' && patternProperties !== null
        ? Object.keys(patternProperties as SchemaObject)
        : [];
    return [...own, ...keys.map((text) => ({ at: `${at}/patternProperties/${escapePointer(text)}`, text }))];
  });
}

/** Analyses the patterns of one package, each once, within one time limit. */
export class PatternChecks {
  readonly #known = new Map<string, string | null>();
  readonly #endsAt = performance.now() + PATTERNS_BUDGET_MS;

  /** Finds the patterns of a schema whose time may explode with the length of a text. */
  async faults(nodes: readonly Subschema[]): Promise<CostFault[]> {
    const faults: CostFault[] = [];
    for (const { at, text } of patternsOf(nodes)) {
      const message = await this.#fault(text);
      if (message !== null) faults.push({ at, message });
    }
    return faults;
  }

  async #fault(text: string): Promise<string | null> {
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    if (this.#known.size >= PATTERNS_MAX) return `is one of more than ${PATTERNS_MAX} patterns in the package`;
    const left = this.#endsAt - performance.now();
    if (left <= 0) return 'is one of too many patterns that take long to analyse; simplify them';
    const fault = await analyse(text, Math.min(left, PATTERN_BUDGET_MS));
    this.#known.set(text, fault);
    return fault;
  }
}

/**
 * Low degrees pass: ordinary patterns are often quadratic, and the supervisor stops every check of arguments after 20
 * ms.
 */
async function analyse(pattern: string, timeout: number): Promise<string | null> {
  // Loaded when a package first contains a pattern: takes 200 ms and memory.
  const { default: recheck } = await import('recheck');
  const found = recheck.checkSync(pattern, 'u', { timeout });
  if (found.status === 'safe') return null;
  if (found.status === 'unknown') {
    // Not a valid pattern: ajv reports it better.
    if (found.error.kind !== 'timeout') return null;
    return 'is too complex to be shown harmless; simplify it, or check that in the handler';
  }
  const { complexity } = found;
  if (complexity.type === 'polynomial' && complexity.degree <= POWER_MAX) return null;
  const example = found.attack.pattern.slice(0, EXAMPLE_MAX_CHARS);
  const growth =
    complexity.type === 'polynomial' ? `takes time with the power ${complexity.degree}` : 'takes exponentially long';
  return `${growth} on some texts, such as ${example}; rewrite it without nested repetition`;
}
