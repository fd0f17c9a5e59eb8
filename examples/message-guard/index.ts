import { hideCardNumbers } from './card-numbers.ts';

middleware.inboundMessage = (ctx) => {
  const { text } = ctx.message;

  const word = forbiddenWords(ctx.settings.forbidden).find((forbidden) => text.toLowerCase().includes(forbidden));
  if (word) {
    host.log.warn('Stopped a message', { from: ctx.message.from, word });
    // `cancel` ends the handler, the chain and the message. The transcript shows the reason.
    ctx.cancel(`The word “${word}” is not allowed here.`);
  }

  if (ctx.settings.redactCards === 'no') return;
  const hidden = hideCardNumbers(text);
  // Return changed fields only. Without a result, the message passes unchanged.
  if (hidden !== text) return { message: { text: hidden } };
};

const forbiddenWords = (setting = ''): string[] =>
  setting
    .split(',')
    .map((word) => word.trim().toLowerCase())
    .filter((word) => word !== '');
