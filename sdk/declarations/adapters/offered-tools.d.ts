/** The session's tools for a model, and the plugins' skills and commands as two more tools, which are judged like the framework's own. */
import type { Session, ToolResult } from '../session/session.js';
interface CallOptions {
    /** The id that the model gave the call. */
    readonly callId?: string | undefined;
    readonly signal?: AbortSignal | undefined;
}
export type ObjectSchema = {
    readonly type: 'object';
} & Readonly<Record<string, unknown>>;
export interface OfferedTool {
    readonly name: string;
    readonly description: string;
    /** The framework must get this very object: the adapter recognizes the tool by it. */
    readonly parameters: ObjectSchema;
    /** Calls the tool. An error that a model can correct is a result with `isError`. Aborting rejects with the signal's reason. */
    call(input: unknown, options: CallOptions): Promise<ToolResult>;
}
/** @param completeSchema adds what the framework requires in the schema of a tool */
export declare function listOfferedTools(session: Session, completeSchema?: (schema: ObjectSchema) => ObjectSchema): Promise<OfferedTool[]>;
export {};
