/** Defines the tools that the host itself performs. The tool runs its hooks, so that no runtime can omit them. */
import { z } from 'zod';
import type { Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { Json, ToolResult } from '../../sdk/session/api-types.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { failedTool } from '../sessions/tool-results.ts';

interface HostCall {
  /** Idempotency key: a call that is made again with it, such as after a crash, has its effect once. */
  readonly requestId: string;
  /** Whether a crash interrupted the call before, which may have had its effect. */
  readonly isRepeated: boolean;
  readonly signal?: AbortSignal | undefined;
}
export interface HostTool {
  /** The full name, such as `todo__create`. */
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, Json>>;
  /** Whether the call is idempotent by its `requestId`, so that one that a crash interrupted is made again. */
  readonly isRepeatable: boolean;
  /** @returns a Problem `invalid_arguments`, which names arguments that a plugin may have chosen @throws Problem `quota_exceeded`, `unavailable` */
  call(services: SessionServices, session: Session, args: unknown, call: HostCall): Promise<ToolResult | Problem>;
}

const LIST_DEFAULT = 50;
const LIST_MAX = 200;
/** Arguments of a tool that lists a page. */
export const pageFields = {
  limit: z.int().min(1).max(LIST_MAX).default(LIST_DEFAULT),
  cursor: z.string().optional().describe('`nextCursor` of the page before.'),
};

interface Definition<Input extends z.ZodType> extends Pick<HostTool, 'name' | 'description' | 'isRepeatable'> {
  readonly input: Input;
  run(services: SessionServices, session: Session, input: z.output<Input>, call: HostCall): Promise<unknown>;
}

/** Problems that a model cannot solve by other arguments. They are thrown; others become results that the model reads. */
const NOT_FOR_MODELS = new Set(['quota_exceeded', 'unavailable', 'internal']);

/** Builds a tool whose arguments are checked, and whose result is one JSON value. */
export function defineTool<Input extends z.ZodType>(definition: Definition<Input>): HostTool {
  const { name, description, input, isRepeatable, run } = definition;
  const { $schema: _, ...parameters } = z.toJSONSchema(input, { io: 'input' }) as Record<string, Json>;
  return {
    name,
    description,
    parameters,
    isRepeatable,
    async call(services, session, args, call) {
      const checked = input.safeParse(args);
      if (!checked.success) return createArgumentsProblem(name, checked.error);
      try {
        const json = (await run(services, session, checked.data, call)) as Json;
        return { content: [{ type: 'json', json }], isError: false };
      } catch (error) {
        if (!(error instanceof Problem) || NOT_FOR_MODELS.has(error.code)) throw error;
        return failedTool(error.message);
      }
    },
  };
}

/**
 * Removes a thing, and returns it as it was. A repeated call returns only the id of a thing that is missing: the interrupted call may
 * have removed it, and an agent that reads that it never existed would look for another one to remove.
 */
export function removeOnce<Thing>(
  { isRepeated }: Pick<HostCall, 'isRepeated'>,
  id: string,
  remove: () => Promise<Thing>,
): Promise<Thing | { readonly id: string }> {
  return remove().catch((error: unknown) => {
    if (isRepeated && error instanceof Problem && error.code === 'not_found') return { id };
    throw error;
  });
}

function createArgumentsProblem(name: string, { issues }: z.ZodError): Problem {
  const errors = issues.map(({ path, message }) => ({ field: path.join('.') || 'arguments', message }));
  return new Problem('invalid_arguments', `The arguments of ${name} do not fit its schema.`, { errors });
}
