/** The hooks of a plugin that an account requires, and those that it loses with an update. For console and command line, without the protocol's schemas. */

/** The names of all hooks begin so, and those of no other capabilities. */
const HOOK = /^(?:middleware|compaction)\./;

export const isHook = (capability: string): boolean => HOOK.test(capability);

/** Whether the account's messages and turns must pass its checks. */
export const hasRequiredChecks = (installation: {
  readonly required: boolean;
  readonly grantedCapabilities: readonly string[];
}): boolean => installation.required && installation.grantedCapabilities.some(isHook);

/** Lists the hooks that a required plugin loses with its pending update. Null: there is no update. */
export const listEndingChecks = (
  pending: { readonly removed: readonly string[] } | null,
  { required }: { readonly required: boolean },
): readonly string[] => (required && pending ? pending.removed.filter(isHook) : []);
