/** A part of a streamed answer in OpenAI's protocol, which many vendors speak. */
type Chunk = {
  choices: { delta: { content?: string | null; tool_calls?: CallPart[] } }[];
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
};
type CallPart = { index: number; id?: string; function?: { name?: string; arguments?: string } };

providers.acme = {
  models: [
    { id: 'swift', name: 'Acme Swift', contextWindow: 32_000 },
    { id: 'deep', name: 'Acme Deep', contextWindow: 200_000 },
  ],

  async *chat(request, { signal }) {
    // Throw instead of answering in another format: the caller relies on JSON.
    if (request.schema) throw new Error('Acme has no structured answers.');

    const model = request.model ?? 'swift';
    const response = await fetch('https://api.acme.example/v1/chat/completions', {
      method: 'POST',
      // Ends the request when the caller leaves.
      signal,
      headers: { authorization: `Bearer ${await host.secrets.get('apiKey')}`, 'content-type': 'application/json' },
      // Undefined fields are omitted from the JSON, so Acme's defaults apply.
      body: JSON.stringify({
        model,
        messages: [
          ...(request.system === undefined ? [] : [{ role: 'system', content: request.system }]),
          ...request.messages.map(toMessage),
        ],
        tools: request.tools?.map((tool) => ({ type: 'function', function: tool })),
        max_tokens: request.maxTokens,
        temperature: request.temperature,
        stream: true,
        stream_options: { include_usage: true },
      }),
    });
    // The plugin's log and agent runtimes of the account get this text; other plugins do not.
    if (!response.ok) throw new Error(`Acme answered ${response.status}`);

    let text = '';
    const calls: { id: string; name: string; argumentsText: string }[] = [];
    const usage = { inputTokens: 0, outputTokens: 0 };
    for await (const { choices, usage: counted } of readChunks(response)) {
      if (counted)
        Object.assign(usage, { inputTokens: counted.prompt_tokens, outputTokens: counted.completion_tokens });
      const delta = choices[0]?.delta;
      if (delta?.content) {
        text += delta.content;
        yield { text: delta.content };
      }
      for (const { index, id, function: part } of delta?.tool_calls ?? []) {
        const argumentsText = part?.arguments ?? '';
        const call = calls[index];
        if (call) {
          call.argumentsText += argumentsText;
          yield { toolCall: { index, argumentsText } };
        } else {
          const head = { id: id ?? `call-${index}`, name: part?.name ?? '' };
          calls[index] = { ...head, argumentsText };
          yield { toolCall: { index, ...head, argumentsText } };
        }
      }
    }
    const toolCalls = calls.map(({ id, name, argumentsText }) => ({
      id,
      name,
      arguments: JSON.parse(argumentsText || '{}'),
    }));
    return { text, model, usage, toolCalls };
  },
};

function toMessage({ role, text, images = [], toolCalls = [], toolCallId }: Bulkhead.ProviderMessage) {
  const pictures = images.map(({ data, mimeType }) => ({
    type: 'image_url',
    image_url: { url: `data:${mimeType};base64,${data}` },
  }));
  const calls = toolCalls.map(({ id, name, arguments: args }) => ({
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify(args) },
  }));
  return {
    role,
    content: pictures.length === 0 ? text : [{ type: 'text', text }, ...pictures],
    tool_calls: calls.length === 0 ? undefined : calls,
    tool_call_id: toolCallId,
  };
}

/** Reads server-sent events as they arrive. */
async function* readChunks(response: Response): AsyncGenerator<Chunk> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of response.body ?? []) {
    rest += decoder.decode(bytes, { stream: true });
    const lines = rest.split(/\r?\n/);
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const data = line.startsWith('data:') ? line.slice('data:'.length).trim() : '';
      if (data !== '' && data !== '[DONE]') yield JSON.parse(data);
    }
  }
}
