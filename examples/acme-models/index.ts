type Reply = { output: string; tokens: { in: number; out: number } };

providers.acme = {
  models: [
    { id: 'swift', name: 'Acme Swift', contextWindow: 32_000 },
    { id: 'deep', name: 'Acme Deep', contextWindow: 200_000 },
  ],

  async chat(request) {
    // Throw instead of answering in another format: the caller relies on JSON.
    if (request.schema) throw new Error('Acme has no structured answers.');

    const model = request.model ?? 'swift';
    const answer = await host.http.fetch('https://api.acme.example/v1/answers', {
      method: 'POST',
      headers: { authorization: `Bearer ${await host.secrets.get('apiKey')}`, 'content-type': 'application/json' },
      // Undefined fields are omitted from the JSON, so Acme's defaults apply.
      body: JSON.stringify({
        model,
        instructions: request.system,
        turns: request.messages.map(({ role, text }) => ({ speaker: role, words: text })),
        limit: request.maxTokens,
        temperature: request.temperature,
      }),
    });
    // The caller learns only that the provider failed; this text is in this plugin's log.
    if (answer.status !== 200) throw new Error(`Acme answered ${answer.status}`);
    const { output, tokens }: Reply = JSON.parse(answer.bodyText);
    return { text: output, model, usage: { inputTokens: tokens.in, outputTokens: tokens.out } };
  },
};
