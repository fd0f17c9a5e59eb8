/** What went wrong inside the plugin, with the place in the author's own files. */
import { mapFrames, mapStack } from '../../db/records/source-maps.ts';

export class PluginError extends Error {
  override readonly name = 'PluginError';
}

export interface Source {
  readonly sourceMap: string;
  /** How stack traces name the bundle. */
  readonly name: string;
}

/** @param stack the plugin's own; empty where there is none */
export function pluginError(what: string, message: string, stack: string, source: Source): PluginError {
  const { path, line, column } = mapStack(source.sourceMap, stack, source.name);
  const place = path === undefined ? '' : ` (${path}:${line}:${column})`;
  const error = new PluginError(`${what}: ${message}${place}`);
  if (stack !== '') error.stack = `PluginError: ${error.message}\n${mapFrames(source.sourceMap, stack, source.name)}`;
  return error;
}
