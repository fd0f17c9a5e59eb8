/** Calls of tools that a model asks for, and their arguments. */
import type { Json } from '../session/session.ts';

/** A call of a tool that the model asks for. */
export interface ModelCall {
  /** The model's id; for a judged call, an id that no other call of the turn has. */
  readonly callId: string;
  readonly name: string;
  readonly arguments: Json;
}
export interface RefusedCall extends ModelCall {
  /** The text of the refusal for the model. */
  readonly text: string;
}

/** The arguments that a model wrote; a text that is not JSON is judged as it is. */
export function parseArguments(text: string): Json {
  try {
    return text === '' ? {} : JSON.parse(text);
  } catch {
    return text;
  }
}

/** The model's own words, unless a plugin changed the arguments. */
export const printArguments = (judged: ModelCall, call: ModelCall, text: string): string =>
  JSON.stringify(judged.arguments) === JSON.stringify(call.arguments) ? text : JSON.stringify(judged.arguments);
