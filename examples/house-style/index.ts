// Runs before every model call. What it returns replaces the system prompt; the next plugin in the chain sees that.
middleware.systemPrompt = (ctx) => {
  // The default from readme.md is filled in, so an empty text is the user's own choice: returning nothing changes nothing.
  const style = ctx.settings.style?.trim();
  if (!style) return;

  return `${ctx.systemPrompt}\n\nHouse style: ${style}`;
};
