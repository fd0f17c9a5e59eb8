/** Messages that wait for their turn were judged by the plugins of an earlier time. */
import { limits } from '../../sdk/contract/limits.ts';
import { type AccountPlugins, listHookLinks } from '../children/account-plugins-cache.ts';

export const INBOUND = 'middleware.inboundMessage';
/** A message is written this long after its judging began at most: mail runs three chains. Milliseconds. */
const JUDGING_MAX_MS = 3 * limits.chainBudgetMs;

/**
 * A plugin that the user requires by now may not have judged a message that was added before this time. Null: none is required.
 */
export function readJudgedFrom(accountPlugins: AccountPlugins): Date | null {
  const guards = listHookLinks(accountPlugins, INBOUND).filter(({ required }) => required);
  if (guards.length === 0) return null;
  return new Date(Math.max(...guards.map(({ updatedAt }) => Date.parse(updatedAt))) + JUDGING_MAX_MS);
}
