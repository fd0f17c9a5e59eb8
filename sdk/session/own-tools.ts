/** The tools of a session that this runtime performs. */
import type { Json, OwnCall, OwnTool, ToolResult } from './api-types.ts';

/** The result of a failed tool, which the model reads. */
export const failedResult = (text: string): ToolResult => ({ content: [{ type: 'text', text }], isError: true });

/** The result of a call that an earlier process got and did not answer. */
export const INTERRUPTED_CALL: ToolResult = failedResult(
  'The call was interrupted because its runtime stopped. The tool may have run: check before you call it again.',
);

/** The fields of tools that the service keeps. The others matter to this process alone. */
export const describeTools = (tools: readonly OwnTool[]): Pick<OwnTool, 'name' | 'description' | 'parameters'>[] =>
  tools.map(({ name, description, parameters }) => ({
    name,
    ...(description === undefined ? {} : { description }),
    ...(parameters === undefined ? {} : { parameters }),
  }));

export class OwnTools {
  readonly #tools = new Map<string, OwnTool>();
  readonly #running = new Map<string, Promise<ToolResult>>();

  add(tools: readonly OwnTool[]): void {
    for (const tool of tools) this.#tools.set(tool.name, tool);
  }

  /** Whether this process can perform a tool. */
  has(name: string): boolean {
    return this.#tools.get(name)?.run !== undefined;
  }

  /** Makes a call that may be asked for twice at once: the tool runs once. */
  runOnce(key: string, work: () => Promise<ToolResult>): Promise<ToolResult> {
    const known = this.#running.get(key);
    if (known) return known;
    const running = work().finally(() => this.#running.delete(key));
    this.#running.set(key, running);
    return running;
  }

  /** Performs a judged call. An error of the tool is a result that the model can read. @throws Error without a function */
  async perform({ callId, name, arguments: args, isRepeated }: OwnCall, signal?: AbortSignal): Promise<ToolResult> {
    const tool = this.#tools.get(name);
    if (!tool?.run)
      throw new Error(
        `The runtime performs ${name} itself, and this session object has no function for it. Give the tool a function: session.offerTools({ tools: [{ name, run }] }).`,
      );
    if (isRepeated && !tool.isRepeatable) return INTERRUPTED_CALL;
    try {
      const returned = await tool.run(args as never, { callId, ...(signal ? { signal } : {}) });
      return toResult(returned);
    } catch (error) {
      return failedResult(error instanceof Error ? error.message : String(error));
    }
  }
}

/** @throws TypeError for a value that JSON cannot hold, such as a big integer */
function toResult(returned: unknown): ToolResult {
  // Also undefined for a function.
  if (JSON.stringify(returned) === undefined) return { content: [], isError: false };
  if (typeof returned === 'string') return { content: [{ type: 'text', text: returned }], isError: false };
  const { content, isError = false } = (returned ?? {}) as Partial<ToolResult>;
  // Other values may have a list with this name, such as a page of a site.
  return Array.isArray(content) && content.every(isPart)
    ? { content, isError }
    : { content: [{ type: 'json', json: returned as Json }], isError: false };
}

const PART_TYPES: ReadonlySet<unknown> = new Set<ToolResult['content'][number]['type']>(['text', 'image', 'json']);

const isPart = (part: unknown): boolean => PART_TYPES.has((part as { type?: unknown } | null)?.type);
