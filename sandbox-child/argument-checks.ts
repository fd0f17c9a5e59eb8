/** Checks the arguments of tools before their handlers run. Each schema is compiled at its tool's first call. */
import type { ArgumentFault, Registrations, SchemaFault } from '../sdk/contract/protocol.ts';
import { findSchemaFault, Schema } from './schema-realm.ts';

type Tools = Registrations['tools'];

export class ArgumentChecks {
  readonly #tools: Tools;
  readonly #schemas = new Map<string, Schema>();

  /** @param tools as recorded at publish; code of the plugin cannot reach this copy */
  constructor(tools: Tools) {
    this.#tools = tools;
  }

  /** Returns what is wrong with the arguments of a tool; empty if they fit. @throws Error when its schema cannot be used */
  check(tool: string, args: unknown): ArgumentFault[] {
    const parameters = Object.hasOwn(this.#tools, tool) ? this.#tools[tool]?.parameters : undefined;
    if (!hasKeywords(parameters)) return [];
    try {
      const schema = this.#schemas.get(tool) ?? new Schema(parameters);
      this.#schemas.set(tool, schema);
      return schema.apply(args).map(({ path, message }) => ({ field: `arguments${path && `.${path}`}`, message }));
    } catch (error) {
      throw new Error(`The tool’s schema cannot be used: ${(error as Error).message}`);
    }
  }
}

/** Finds what is wrong with the schemas of tools. */
export function findSchemaFaults(tools: Tools): SchemaFault[] {
  return Object.entries(tools).flatMap(([tool, { parameters }]) => {
    const fault = hasKeywords(parameters) ? findSchemaFault(parameters) : null;
    return fault ? [{ tool, ...fault }] : [];
  });
}

/** Whether a schema could refuse anything. Other values than objects are refused as registrations. */
function hasKeywords(schema: unknown): schema is object {
  return typeof schema === 'object' && schema !== null && Object.keys(schema).length > 0;
}
