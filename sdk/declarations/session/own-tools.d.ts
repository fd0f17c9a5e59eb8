/** The tools of a session that this runtime performs. */
import type { OwnCall, OwnTool, ToolResult } from './api-types.js';
/** What the service knows of tools: neither their functions nor what a crash means for them. */
export declare const describeTools: (tools: readonly OwnTool[]) => Pick<OwnTool, 'name' | 'description' | 'parameters'>[];
export declare class OwnTools {
    #private;
    add(tools: readonly OwnTool[]): void;
    /** Makes a call that may be asked for twice at once: the tool runs once. */
    runOnce(key: string, work: () => Promise<ToolResult>): Promise<ToolResult>;
    /** Performs a judged call. What the tool throws is a result that the model can read. @throws Error without a function */
    perform({ callId, name, arguments: args, isRepeated }: OwnCall, signal?: AbortSignal): Promise<ToolResult>;
}
