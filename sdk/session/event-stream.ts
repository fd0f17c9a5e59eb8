/** Server-sent events out of a `fetch` answer: unlike EventSource it sends a token, and works outside browsers. */

export interface ServerSentEvent {
  readonly id: string;
  readonly type: string;
  readonly data: string;
}

/** A message is a megabyte at most; a line longer than this is no event of ours, characters. */
const LINE_MAX = 8 * 1024 * 1024;

/** Reads events until the stream ends. Those that carry nothing but an id have an empty `data`. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  let event = { id: '', type: 'message', data: [] as string[] };
  for await (const line of linesOf(body)) {
    if (line === '') {
      yield { id: event.id, type: event.type, data: event.data.join('\n') };
      event = { id: event.id, type: 'message', data: [] };
      continue;
    }
    const [, field, value = ''] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
    if (field === 'id') event.id = value;
    else if (field === 'event') event.type = value;
    else if (field === 'data') event.data.push(value);
  }
}

async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split(/\r\n|\n|\r/);
      rest = lines.pop() ?? '';
      if (rest.length > LINE_MAX) throw new Error('the stream holds a line without an end');
      yield* lines;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
