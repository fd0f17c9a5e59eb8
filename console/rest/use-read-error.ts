/** The error of a read that is repeated. */
import type { UseQueryResult } from '@tanstack/react-query';
import { useState } from 'react';

/** Returns why the last attempt failed, also while the next one runs: without data, the cache forgets the error when it begins. */
export function useReadError({
  data,
  error,
  errorUpdateCount,
}: Pick<UseQueryResult, 'data' | 'error' | 'errorUpdateCount'>): Error | null {
  const [last, setLast] = useState(error);
  if (error !== null && error !== last) setLast(error);
  return error ?? (data === undefined && errorUpdateCount > 0 ? last : null);
}
