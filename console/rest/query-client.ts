/** The cache of REST responses. */
import { QueryClient } from '@tanstack/react-query';
import { Problem } from './problem.ts';

/** Retries of a read when the service is unavailable. Other errors are not retried. */
const RETRIES = 2;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      retry: (failures, error) => !(error instanceof Problem && error.body.status < 500) && failures < RETRIES,
    },
  },
});
