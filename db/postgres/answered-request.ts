/** Requests something of another process: through a row that the other process answers. */
import { Waker } from '../timing/waker.ts';
import type { Listener, Subscription } from './listener.ts';

interface AnsweredRequest<Answer> {
  readonly id: string;
  /** Subscribes to the ids of requests that are answered, and to reconnects, during which notifications are lost. */
  subscribe(listener: Listener, onAnswer: (id: string) => void, onReconnect: () => void): Promise<Subscription>;
  /** Inserts the row, and queues the request or notifies the other process. */
  send(): Promise<void>;
  /** Null: it is not answered yet. */
  readAnswer(): Promise<Answer | null>;
  deleteRow(): Promise<unknown>;
  readonly timeoutMs: number;
  /** Interval of looking for an answer whose notification was lost. Milliseconds. */
  readonly pollMs: number;
}

/** Sends a request, waits for its answer and deletes its row. Null: it was not answered in time. */
export async function waitForAnswer<Answer>(
  listener: Listener,
  { id, timeoutMs, pollMs, ...request }: AnsweredRequest<Answer>,
): Promise<Answer | null> {
  const deadline = performance.now() + timeoutMs;
  const waker = new Waker();
  const onAnswer = (answeredId: string) => answeredId === id && waker.wake();
  const subscription = await request.subscribe(listener, onAnswer, () => waker.wake());
  try {
    await request.send();
    for (let left = timeoutMs; left > 0; left = deadline - performance.now()) {
      await waker.wait(Math.min(left, pollMs));
      const answer = await request.readAnswer();
      if (answer !== null) return answer;
    }
    return null;
  } finally {
    await subscription.close();
    // A sweep deletes what is left.
    await request.deleteRow().catch(() => undefined);
  }
}
