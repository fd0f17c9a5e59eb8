/** Runs a change at the service and then refetches all queries. */
import { notifications } from '@mantine/notifications';
import { type UseMutationResult, useMutation } from '@tanstack/react-query';
import { type RefObject, useRef } from 'react';
import { getErrorMessage } from './problem.ts';
import { queryClient } from './query-client.ts';

/** Errors stay visible longer than confirmations, milliseconds. */
const REFUSAL_MS = 12_000;
const shownErrors = new Set<string>();

/** An action whose error a form or a dialog shows. */
export interface RefusableAction {
  readonly error: Error | null;
  /** Whether it is shown there. False: a notification shows it. */
  readonly isErrorShown: RefObject<boolean>;
}

/** @param done message after success; null if the page itself shows the result */
export function useAction<Input, Output>(
  run: (input: Input) => Promise<Output>,
  done: string | ((output: Output) => string) | null = null,
): UseMutationResult<Output, Error, Input> & RefusableAction {
  const runs = useRunGuard();
  const isErrorShown = useRef(false);
  const action = useMutation<Output, Error, Input>({
    mutationFn: run,
    // An error of an earlier attempt would contradict the result of this one.
    onMutate: hideActionErrors,
    onSuccess: (output) => {
      if (done !== null) notifications.show({ message: typeof done === 'string' ? done : done(output) });
      return queryClient.invalidateQueries();
    },
    onError: (error) => {
      if (!isErrorShown.current) showError(error);
      // The error must not wait for these: while the service is away, they take seconds.
      void queryClient.invalidateQueries();
    },
    onSettled: (_output, _error, input) => runs.end(input),
  });
  const mutate: typeof action.mutate = (...args) => {
    if (runs.begin(args[0])) action.mutate(...args);
  };
  return { ...action, mutate, isErrorShown };
}

/** Keeps a run from beginning twice: the second click of a double click comes before the button is disabled. */
export function useRunGuard() {
  const running = useRef(new Set<unknown>());
  return {
    /** @returns whether it begins: no run with this key has begun and not ended */
    begin(key: unknown): boolean {
      if (running.current.has(key)) return false;
      running.current.add(key);
      return true;
    },
    end(key: unknown): void {
      running.current.delete(key);
    },
  };
}

function showError(error: Error): void {
  const content = { color: 'red', message: getErrorMessage(error), autoClose: REFUSAL_MS };
  shownErrors.add(notifications.show(content));
}

/** Hides the errors of the actions of a page that the user leaves. */
export function hideActionErrors(): void {
  for (const id of shownErrors) notifications.hide(id);
  shownErrors.clear();
}
