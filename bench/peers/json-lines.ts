/** The peer that answers one JSON message per line, without library, jail and checks. */
let rest = '';
process.stdin.setEncoding('utf8').on('data', (text: string) => {
  const lines = (rest + text).split('\n');
  rest = lines.pop() ?? '';
  for (const line of lines) {
    const { id, params } = JSON.parse(line);
    process.stdout.write(
      `${JSON.stringify({ id, result: { outcome: 'answered', answer: params.context.systemPrompt } })}\n`,
    );
  }
});
