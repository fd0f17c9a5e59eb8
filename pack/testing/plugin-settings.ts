/** Checks what a test gives a plugin: options, settings and secrets. */
import { findMissingConfiguration, type Manifest, resolveSettings } from '../../sdk/contract/manifest.ts';
import type { PluginOptions } from '../../sdk/testing/testing.ts';

/**
 * Completes the settings with their defaults.
 *
 * @throws Error if the service would refuse them, or would not run the plugin with them
 */
export function resolvePluginSettings(
  manifest: Manifest,
  { settings = {}, secrets = {} }: PluginOptions,
): Record<string, string> {
  refuseUnknown('settings', Object.keys(settings), manifest.settings);
  refuseUnknown('secrets', Object.keys(secrets), manifest.secrets);
  const effective = resolveSettings(manifest, settings);
  const refused = Object.keys(settings).find((name) => effective[name] !== settings[name]);
  if (refused !== undefined)
    throw new Error(
      `settings: ${refused} cannot be “${settings[refused]}”: readme.md allows ${manifest.settings[refused]?.enum?.join(', ')}.`,
    );
  const [missing] = findMissingConfiguration(manifest, settings, Object.keys(secrets));
  if (missing === undefined) return effective;
  const kind = Object.hasOwn(manifest.settings, missing) ? 'settings' : 'secrets';
  throw new Error(
    `readme.md requires ${missing}, and the plugin would not run without it: give { ${kind}: { ${missing}: '…' } }.`,
  );
}

function refuseUnknown(kind: string, given: readonly string[], known: Readonly<Record<string, unknown>>): void {
  const unknown = given.find((name) => !Object.hasOwn(known, name));
  if (unknown === undefined) return;
  const names = Object.keys(known).join(', ') || 'none';
  throw new Error(`${kind}: ${unknown} is not in readme.md, which has ${names}: declare it there.`);
}

/** @throws Error that names the fields there are: code without types would have a misspelt one ignored */
export function refuseUnknownFields(what: string, given: object, known: Readonly<Record<string, true>>): void {
  const unknown = Object.keys(given).find((key) => !Object.hasOwn(known, key));
  if (unknown !== undefined)
    throw new Error(`${what} has no field ${unknown}; it has ${Object.keys(known).join(', ')}.`);
}
