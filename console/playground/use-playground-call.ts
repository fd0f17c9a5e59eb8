/** Runs a call of the playground, which its user can cancel. */
import { useRef } from 'react';
import { useAction } from '../rest/use-action.ts';

export type PlaygroundCall = Pick<ReturnType<typeof usePlaygroundCall>, 'isPending' | 'cancel'>;

export function usePlaygroundCall<Input, Output>(run: (input: Input, signal: AbortSignal) => Promise<Output>) {
  const running = useRef<AbortController | null>(null);
  const action = useAction((input: Input) => {
    running.current = new AbortController();
    return run(input, running.current.signal);
  });
  // Enter sends a form also while its button is disabled.
  const mutate = (input: Input) => {
    if (!action.isPending) action.mutate(input);
  };
  const cancel = () => running.current?.abort(new Error('You have cancelled it.'));
  return { ...action, mutate, cancel };
}
