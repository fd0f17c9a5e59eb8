// Runs before every model call. The returned text replaces the system prompt for the next plugin and the model.
middleware.systemPrompt = (ctx) => {
  // Settings include the defaults of readme.md, so an empty text is the user's choice: returning nothing changes
  // nothing.
  const style = ctx.settings.style?.trim();
  if (!style) return;

  const line = `House style: ${style}`;
  // It may be there already: a plugin that the user requires is called again after another plugin changed the prompt.
  if (ctx.systemPrompt.includes(line)) return;
  return `${ctx.systemPrompt}\n\n${line}`;
};
