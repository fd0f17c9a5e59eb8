/** Why a plugin's summary of a conversation cannot be used. The kit for tests of plugins checks it, too. */
import { limits } from '../../sdk/contract/limits.ts';
import type { ChainState } from '../calls/chain.ts';

/** @param step of the plugin's call @returns continues a sentence that begins with the plugin; null: the summary can be used */
export function findSummaryFault(step: ChainState['trace'][number] | undefined, summary: string): string | null {
  if (step?.outcome === 'skipped_timeout') return 'took too long';
  if (step?.outcome === 'skipped_unavailable') return 'is not running';
  if (step?.outcome === 'skipped_error') return 'failed';
  if (summary.trim() === '') return 'returned a blank summary';
  if (summary.length > limits.summaryMaxChars) return `returned more than ${limits.summaryMaxChars} characters`;
  return null;
}
