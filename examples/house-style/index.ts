// Runs before every model call. The returned text replaces the system prompt for the next plugin and the model.
middleware.systemPrompt = (ctx) => {
  // Settings include the defaults of readme.md, so an empty text is the user's choice: returning nothing changes
  // nothing.
  const style = ctx.settings.style?.trim();
  if (!style) return;

  return `${ctx.systemPrompt}\n\nHouse style: ${style}`;
};
