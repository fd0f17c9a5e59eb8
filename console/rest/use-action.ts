/** Runs a change at the service and then refetches all queries. */
import { notifications } from '@mantine/notifications';
import { type UseMutationResult, useMutation } from '@tanstack/react-query';
import { getErrorMessage } from './problem.ts';
import { queryClient } from './query-client.ts';

/** Errors stay visible longer than confirmations, milliseconds. */
const REFUSAL_MS = 12_000;

/** @param done message after success; null if the page itself shows the result */
export function useAction<Input, Output>(
  run: (input: Input) => Promise<Output>,
  done: string | null = null,
): UseMutationResult<Output, Error, Input> {
  return useMutation({
    mutationFn: run,
    onSuccess: () => {
      if (done !== null) notifications.show({ message: done });
    },
    onError: (error) =>
      notifications.show({ color: 'red', title: 'Not done', message: getErrorMessage(error), autoClose: REFUSAL_MS }),
    onSettled: () => queryClient.invalidateQueries(),
  });
}
