import { hideCardNumbers } from './card-numbers.ts';

middleware.inboundMessage = (ctx) => {
  const { text } = ctx.message;

  const word = forbiddenWords(ctx.settings.forbidden).find((forbidden) => text.toLowerCase().includes(forbidden));
  if (word) {
    host.log.warn('Stopped a message', { from: ctx.message.from, word });
    // A veto ends the handler here, the chain and the message. The reason is shown in the transcript.
    ctx.cancel(`The word “${word}” is not allowed here.`);
  }

  if (ctx.settings.redactCards === 'no') return;
  const hidden = hideCardNumbers(text);
  // Return only what changes. Returning nothing lets the message pass as it is.
  if (hidden !== text) return { message: { text: hidden } };
};

const forbiddenWords = (setting = ''): string[] =>
  setting
    .split(',')
    .map((word) => word.trim().toLowerCase())
    .filter((word) => word !== '');
