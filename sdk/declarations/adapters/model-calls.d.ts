/** Calls of tools that a model asks for, and their arguments. */
import type { Json } from '../session/session.js';
/** What a framework calls a tool. */
export interface ToolName {
    readonly name: string;
    /** The framework's group of tools that the tool is in. Tools of several groups may have the same name. */
    readonly namespace?: string | undefined;
}
/** A call of a tool that the model asks for. */
export interface ModelCall extends ToolName {
    /** The model's id; for a judged call, an id that no other call of the turn has. */
    readonly callId: string;
    readonly arguments: Json;
    /** Why the arguments are not JSON. `arguments` is then the model's text. */
    readonly parseError?: string;
}
export interface RefusedCall extends ModelCall {
    /** The text of the refusal for the model. */
    readonly text: string;
}
/**
 * Returns the name of a tool that no tool of another namespace has, and under which plugins judge its calls. OpenAI's models put a
 * tool that they load later into a namespace of its own name.
 */
export declare const formatToolName: ({ name, namespace }: ToolName) => string;
/** Reads the arguments that a model wrote, as frameworks do: an empty text has none. */
export declare function parseArguments(text: string): Pick<ModelCall, 'arguments' | 'parseError'>;
/**
 * Prints the arguments that plugins judged: another reader of the model's text may find other arguments in it, such as infinity in
 * `1e999`. Those of the session's tools are as the model wrote them, because the service judges them when it gets the call.
 */
export declare const printArguments: (judged: ModelCall, call: ModelCall, text: string) => string;
/** Whether plugins left the arguments as they were. */
export declare const hasSameArguments: (judged: ModelCall, call: ModelCall) => boolean;
/** Removes properties named `__proto__`: in a framework's copy they set the prototype, and the tool finds properties that no plugin judged. */
export declare const withoutPrototypes: (args: Json) => Json;
