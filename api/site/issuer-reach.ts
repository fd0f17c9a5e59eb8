/**
 * Finds the origin of an issuer's token endpoint, which the console's page must be allowed to call and may be on
 * another host.
 */
import { z } from 'zod';
import { SECOND } from '../../sdk/contract/limits.ts';
import { discoverIssuer } from '../../service/identity/oidc.ts';

/** The discovery document is fetched again at this age, when the console's page is next opened. Milliseconds. */
const FRESH_MS = 10 * 60 * SECOND;

const discovery = z.object({ token_endpoint: z.url({ protocol: /^https?$/ }) });

/**
 * Fetches the discovery document in the background, so that start-up does not depend on another service.
 *
 * @param onError called when a fetch fails; the next call tries again, and returns what was known before
 * @param now milliseconds of a monotonic clock
 * @returns a function that returns the known origins: the issuer's and its token endpoint's
 */
export function watchIssuer(
  issuer: string,
  onError: (error: Error) => void,
  now: () => number = () => performance.now(),
): () => readonly string[] {
  const own = new URL(issuer).origin;
  let found: readonly string[] = [own];
  let foundAt = Number.NEGATIVE_INFINITY;
  let isAsking = false;
  const discover = async (): Promise<void> => {
    isAsking = true;
    try {
      const { token_endpoint } = await discoverIssuer(issuer, discovery);
      found = [own, new URL(token_endpoint).origin];
      foundAt = now();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      onError(new Error(`OIDC_ISSUER ${issuer} does not give its configuration: ${reason}`, { cause: error }));
    } finally {
      isAsking = false;
    }
  };
  const origins = (): readonly string[] => {
    if (now() - foundAt > FRESH_MS && !isAsking) void discover();
    return found;
  };
  origins();
  return origins;
}
