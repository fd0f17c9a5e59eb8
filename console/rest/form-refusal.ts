/** Names the fields of a refused form by their labels, which the user sees, and not as the service does. */
import { Problem } from './problem.ts';

/** @param labels by the name of the field in the request */
export async function withFieldLabels<Answer>(
  request: Promise<Answer>,
  labels: Readonly<Record<string, string>>,
): Promise<Answer> {
  try {
    return await request;
  } catch (error) {
    const places = error instanceof Problem ? (error.body.errors ?? []) : [];
    const sentences = places.flatMap(({ field, message }) => {
      const label = field === undefined ? undefined : labels[field];
      return label === undefined ? [] : [`${label}: ${message.replace(/\.$/, '')}.`];
    });
    // A refusal of something else than these fields stays as it is.
    if (sentences.length === 0 || sentences.length < places.length) throw error;
    throw new Error(sentences.join(' '), { cause: error });
  }
}
