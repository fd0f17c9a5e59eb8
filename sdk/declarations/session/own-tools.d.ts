/** The tools of a session that this runtime performs. */
import type { OwnCall, OwnTool, ToolResult } from './api-types.js';
/** The result of a failed tool, which the model reads. */
export declare const failedResult: (text: string) => ToolResult;
/** The result of a call that an earlier process got and did not answer. */
export declare const INTERRUPTED_CALL: ToolResult;
/** The fields of tools that the service keeps. The others matter to this process alone. */
export declare const describeTools: (tools: readonly OwnTool[]) => Pick<OwnTool, 'name' | 'description' | 'parameters'>[];
export declare class OwnTools {
    #private;
    add(tools: readonly OwnTool[]): void;
    /** Whether this process can perform a tool. */
    has(name: string): boolean;
    /** Makes a call that may be asked for twice at once: the tool runs once. */
    runOnce(key: string, work: () => Promise<ToolResult>): Promise<ToolResult>;
    /** Performs a judged call. An error of the tool is a result that the model can read. @throws Error without a function */
    perform({ callId, name, arguments: args, isRepeated }: OwnCall, signal?: AbortSignal): Promise<ToolResult>;
}
