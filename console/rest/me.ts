/** Who is signed in. */
import { useQuery } from '@tanstack/react-query';
import { bodyOf, rest } from './client.ts';

export const useMe = () =>
  useQuery({
    queryKey: ['me'],
    queryFn: () => bodyOf(rest.GET('/me')),
    staleTime: Number.POSITIVE_INFINITY,
  });
