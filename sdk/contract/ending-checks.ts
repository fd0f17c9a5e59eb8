/** The hooks that an account loses with an update. For console and command line, without the protocol's schemas. */

/** The names of all hooks begin so, and those of no other capabilities. */
const HOOK = /^(?:middleware|compaction)\./;

export const isHook = (capability: string): boolean => HOOK.test(capability);

/** Lists the hooks that a required plugin loses with its pending update. Null: there is no update. */
export const listEndingChecks = (
  pending: { readonly removed: readonly string[] } | null,
  { required }: { readonly required: boolean },
): readonly string[] => (required && pending ? pending.removed.filter(isHook) : []);
