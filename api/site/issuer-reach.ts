/** Where an issuer's token endpoint is: some have it on another host, which the console's page must be let call, too. */
import { z } from 'zod';
import { discoverIssuer } from '../../service/identity/oidc.ts';

const discovery = z.object({ token_endpoint: z.url({ protocol: /^https?$/ }) });

/**
 * Asks the issuer at once, without waiting for it: no start-up and no page hangs on another's service.
 *
 * @param onError told why it did not answer; it is asked again at the next call
 * @returns origins that are known by now: the issuer's own, and its token endpoint's
 */
export function watchIssuer(issuer: string, onError: (error: Error) => void): () => readonly string[] {
  const own = new URL(issuer).origin;
  let found: readonly string[] | null = null;
  let isAsking = false;
  const ask = async (): Promise<void> => {
    isAsking = true;
    try {
      const { token_endpoint } = await discoverIssuer(issuer, discovery);
      found = [own, new URL(token_endpoint).origin];
    } catch (error) {
      onError(error instanceof Error ? error : new Error(String(error)));
    } finally {
      isAsking = false;
    }
  };
  const origins = (): readonly string[] => {
    if (found === null && !isAsking) void ask();
    return found ?? [own];
  };
  origins();
  return origins;
}
