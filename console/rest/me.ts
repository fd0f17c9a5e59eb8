/** Reads the signed-in account. */
import { useQuery } from '@tanstack/react-query';
import { readBody, rest } from './client.ts';

export const useMe = () =>
  useQuery({
    queryKey: ['me'],
    queryFn: () => readBody(rest.GET('/me')),
    staleTime: Number.POSITIVE_INFINITY,
  });
