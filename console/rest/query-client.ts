/** The cache of what the service answered. */
import { QueryClient } from '@tanstack/react-query';
import { Problem } from './problem.ts';

/** A read that failed for want of the service is tried again this often; a refusal never is. */
const RETRIES = 2;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      retry: (failures, error) => !(error instanceof Problem && error.body.status < 500) && failures < RETRIES,
    },
  },
});
