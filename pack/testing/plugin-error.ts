/** An error inside the plugin, with its position in the author's files. */
import { mapFrames, mapStack } from '../../db/records/source-maps.ts';

export class PluginError extends Error {
  override readonly name = 'PluginError';
}

export interface Source {
  readonly sourceMap: string;
  /** The bundle's file name in stack traces. */
  readonly name: string;
}

/** @param stack of the plugin; empty if unknown */
export function pluginError(what: string, message: string, stack: string, source: Source): PluginError {
  const { path, line, column } = mapStack(source.sourceMap, stack, source.name);
  const place = path === undefined ? '' : ` (${path}:${line}:${column})`;
  const error = new PluginError(`${what}: ${message}${place}`);
  if (stack !== '') error.stack = `PluginError: ${error.message}\n${mapFrames(source.sourceMap, stack, source.name)}`;
  return error;
}
