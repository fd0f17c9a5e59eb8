/** The reference names a limit of every result: what has as much is accepted, and one character more is refused. */
import t from 'tap';
import { surfaces } from '../../../sdk/contract/protocol.ts';
import { checkSurfaceAnswer } from '../../../supervisor/calls/surface-answers.ts';

const usage = { inputTokens: 1, outputTokens: 1 };
for (const [kind, max, returned] of [
  ['commands', surfaces.commands.resultMax.textChars, (text: string) => text],
  ['providers', surfaces.providers.resultMax.textChars, (text: string) => ({ text, model: 'm', usage })],
  ['channel.handshake', surfaces['channel.handshake'].resultMax.bodyChars, (body: string) => ({ status: 200, body })],
] as const)
  t.test(kind, async (t) => {
    t.match(checkSurfaceAnswer(kind, returned('x'.repeat(max))), { kind: 'answered' });
    t.match(checkSurfaceAnswer(kind, returned('x'.repeat(max + 1))), {
      kind: 'error',
      message: new RegExp(`must have at most ${max} characters`),
    });
  });
