/** Runs a change at the service and then refetches all queries. */
import { notifications } from '@mantine/notifications';
import { type UseMutationResult, useMutation } from '@tanstack/react-query';
import { useRef } from 'react';
import { getErrorMessage } from './problem.ts';
import { queryClient } from './query-client.ts';

/** Errors stay visible longer than confirmations, milliseconds. */
const REFUSAL_MS = 12_000;
const shownErrors = new Set<string>();

/** @param done message after success; null if the page itself shows the result */
export function useAction<Input, Output>(
  run: (input: Input) => Promise<Output>,
  done: string | null = null,
): UseMutationResult<Output, Error, Input> {
  const running = useRef(new Set<unknown>());
  const action = useMutation<Output, Error, Input>({
    mutationFn: run,
    onSuccess: () => {
      if (done !== null) notifications.show({ message: done });
    },
    onError: showError,
    onSettled: async (_output, _error, input) => {
      await queryClient.invalidateQueries();
      running.current.delete(input);
    },
  });
  const mutate: typeof action.mutate = (...args) => {
    const [input] = args;
    // The second click of a double click comes before the button is disabled.
    if (running.current.has(input)) return;
    running.current.add(input);
    action.mutate(...args);
  };
  return { ...action, mutate };
}

function showError(error: Error): void {
  const content = { color: 'red', title: 'Not done', message: getErrorMessage(error), autoClose: REFUSAL_MS };
  shownErrors.add(notifications.show(content));
}

/** Hides the errors of the actions of a page that the user leaves. */
export function hideActionErrors(): void {
  for (const id of shownErrors) notifications.hide(id);
  shownErrors.clear();
}
