/** The cache of REST responses. */
import { QueryClient } from '@tanstack/react-query';
import { Problem } from './problem.ts';

/** Retries of a read when the service is unavailable. Other errors are not retried. */
const RETRIES = 2;

/**
 * Sends each request at once. The default waits while the browser counts as offline: an error would not be shown, and an action
 * would run by itself hours after its click. The service may also run on this machine, which needs no network.
 */
const NETWORK_MODE = 'always';

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      networkMode: NETWORK_MODE,
      // Off by default in this mode.
      refetchOnReconnect: true,
      staleTime: 2_000,
      retry: (failures, error) => !(error instanceof Problem && error.body.status < 500) && failures < RETRIES,
    },
    mutations: { networkMode: NETWORK_MODE },
  },
});
