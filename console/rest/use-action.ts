/** A change that the user asks for: done at the service, then everything on the page is read again. */
import { notifications } from '@mantine/notifications';
import { type UseMutationResult, useMutation } from '@tanstack/react-query';
import { getErrorMessage } from './problem.ts';
import { queryClient } from './query-client.ts';

/** A refusal is read longer than a confirmation, milliseconds. */
const REFUSAL_MS = 12_000;

/** @param done said when it worked; null where the page itself shows it */
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
