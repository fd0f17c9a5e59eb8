/** The realm of the schema program, which is created on first use: most plugins never need it. */
import { createContext, Script } from 'node:vm';
import type { Applied, Compiled, SchemaFault, SchemaProgram, ValueFault } from './schema-program.ts';

/** The bundled program, inserted by `build-child.ts`. */
declare const SCHEMA_PROGRAM: string;

let program: SchemaProgram | null = null;

function openProgram(): SchemaProgram {
  if (program === null) {
    const realm = createContext(Object.create(null)) as { readonly schemas: SchemaProgram };
    new Script(SCHEMA_PROGRAM, { filename: 'schemas.cjs' }).runInContext(realm);
    program = realm.schemas;
  }
  return program;
}

/** Finds why a schema of tool arguments cannot be used; null if it can. */
export function findSchemaFault(schema: object): SchemaFault | null {
  return JSON.parse(openProgram().findFault(JSON.stringify(schema)));
}

/** A compiled schema. */
export class Schema {
  readonly #text: string;

  /** @throws Error when the schema cannot be used; its message is the end of a sentence */
  constructor(schema: object) {
    this.#text = JSON.stringify(schema);
    requireUsable(JSON.parse(openProgram().compile(this.#text)));
  }

  /** Returns why a JSON value does not fit; empty if it does. @throws Error when the schema cannot be used */
  apply(value: unknown): readonly ValueFault[] {
    const applied: Applied = JSON.parse(openProgram().apply(this.#text, JSON.stringify(value)));
    requireUsable(applied);
    return applied.errors;
  }
}

function requireUsable({ unusable }: Compiled): void {
  if (unusable !== undefined) throw new Error(unusable);
}
